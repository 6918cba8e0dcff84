//! Builds the engine module, its mirror for Python, and the native tests.
//!
//!     zig build wasm       querymode/querymode.wasm, what wheels and editable installs carry
//!     zig build wasm-safe  zig-out/bin/querymode_safe.wasm, the same with every safety check on, and the tests'
//!                          toy format
//!     zig build bench-wasm zig-out/bin/querymode_bench.wasm, the decoders alone, for benchmarks/codecs.py
//!     zig build abi        querymode/_abi.py from wasm/src/abi.zig
//!     zig build fuzz-parquet zig-out/bin/fuzz_parquet, which reads mutated files natively
//!     zig build test       unit tests, natively; `test-wasm` builds them for wasm32-wasi
const std = @import("std");
const builtin = @import("builtin");

comptime {
    const pinned = "0.17.0";
    if (!std.mem.eql(u8, builtin.zig_version_string, pinned))
        @compileError("QueryMode pins Zig " ++ pinned ++ ", this is " ++ builtin.zig_version_string);
}

/// What the engine may use of WebAssembly. All of it is on by default in wasmtime.
const wasm_features = std.Target.wasm.featureSet(&.{
    .simd128,
    .bulk_memory,
    .sign_ext,
    .nontrapping_fptoint,
    .multivalue,
    .mutable_globals,
    .extended_const,
});

pub fn build(b: *std.Build) void {
    const generated = add_generated(b);
    const engine = add_engine(b, generated, "querymode", .fast);
    const update = b.addUpdateSourceFiles();
    update.addCopyFileToSource(engine.getEmittedBin(), "querymode/querymode.wasm");
    b.step("wasm", "Write querymode/querymode.wasm").dependOn(&update.step);

    const safe = add_engine(b, generated, "querymode_safe", .safe);
    const install_safe = b.addInstallArtifact(safe, .{});
    b.step("wasm-safe", "Write zig-out/bin/querymode_safe.wasm, all safety checks on").dependOn(&install_safe.step);

    add_benchmark(b, generated);
    add_abi(b);
    add_fuzzer(b, generated);
    add_tests(b, generated);

    const fmt = b.addFmt(.{ .paths = &.{ b.path("build.zig"), b.path("wasm") }, .check = true });
    b.step("fmt-check", "Check formatting").dependOn(&fmt.step);
}

/// Brotli's dictionary and Unicode's letters are not in the repository: a Python with the package brotli, or
/// pyarrow, spells them out beside the sources that embed them, where compilers run by hand find them too.
fn add_generated(b: *std.Build) *std.Build.Step {
    const python = b.option([]const u8, "python", "an interpreter with the package brotli (default: python3)");
    const update = b.addUpdateSourceFiles();
    for ([_][3][]const u8{
        .{ "tools/brotli_dictionary.py", "brotli_dictionary.bin", "wasm/src/codec/brotli_dictionary.bin" },
        .{ "tools/unicode_case.py", "unicode_case.bin", "wasm/src/kernel/unicode_case.bin" },
    }) |item| {
        const run = b.addSystemCommand(&.{python orelse "python3"});
        run.addFileArg(b.path(item[0]));
        update.addCopyFileToSource(run.addOutputFileArg(item[1]), item[2]);
    }
    return &update.step;
}

fn add_engine(
    b: *std.Build,
    generated: *std.Build.Step,
    name: []const u8,
    optimize: std.lang.Optimize,
) *std.Build.Step.Compile {
    const engine = add_reactor(b, generated, name, "wasm/src/main.zig", optimize);
    // Exactly the doors of abi.zig; rdynamic would also export the stack pointer and every variable.
    engine.root_module.export_symbol_names = @typeInfo(@import("wasm/src/abi.zig").Exports).@"struct".decl_names;
    return engine;
}

fn add_benchmark(b: *std.Build, generated: *std.Build.Step) void {
    const benchmark = add_reactor(b, generated, "querymode_bench", "wasm/src/bench.zig", .fast);
    benchmark.rdynamic = true;
    const install = b.addInstallArtifact(benchmark, .{});
    b.step("bench-wasm", "Write zig-out/bin/querymode_bench.wasm").dependOn(&install.step);
}

fn add_reactor(
    b: *std.Build,
    generated: *std.Build.Step,
    name: []const u8,
    root: []const u8,
    optimize: std.lang.Optimize,
) *std.Build.Step.Compile {
    const reactor = b.addExecutable(.{
        .name = name,
        .root_module = b.createModule(.{
            .root_source_file = b.path(root),
            .target = b.resolveTargetQuery(.{
                .cpu_arch = .wasm32,
                .os_tag = .freestanding,
                .cpu_features_add = wasm_features,
            }),
            .optimize = optimize,
            // Unstripped modules hold absolute paths: two checkouts would differ.
            .strip = true,
            .single_threaded = true,
        }),
    });
    reactor.entry = .disabled; // no _start
    reactor.stack_size = 1024 * 1024;
    add_options(b, reactor, optimize == .safe);
    reactor.step.dependOn(generated);
    return reactor;
}

/// What sources find in `build_options`. The toy format is for tests: what users get does not have it.
fn add_options(b: *std.Build, compile: *std.Build.Step.Compile, has_toy_format: bool) void {
    const options = b.addOptions();
    options.addOption(bool, "has_toy_format", has_toy_format);
    compile.root_module.addOptions("build_options", options);
}

fn add_abi(b: *std.Build) void {
    const generator = b.addExecutable(.{
        .name = "abi_python",
        .root_module = b.createModule(.{
            .root_source_file = b.path("wasm/src/abi_python.zig"),
            .target = b.graph.host,
            .optimize = .debug,
        }),
    });
    const run = b.addRunArtifact(generator);
    const update = b.addUpdateSourceFiles();
    update.addCopyFileToSource(run.captureStdOut(.{ .basename = "_abi.py" }), "querymode/_abi.py");
    b.step("abi", "Write querymode/_abi.py").dependOn(&update.step);
}

fn add_fuzzer(b: *std.Build, generated: *std.Build.Step) void {
    const fuzzer = b.addExecutable(.{
        .name = "fuzz_parquet",
        .root_module = b.createModule(.{
            .root_source_file = b.path("wasm/src/parquet_fuzz_main.zig"),
            .target = b.graph.host,
            .optimize = b.option(
                std.lang.Optimize,
                "fuzz-optimize",
                "fuzz_parquet (default: debug, which builds in seconds)",
            ) orelse .debug,
        }),
    });
    add_options(b, fuzzer, false);
    fuzzer.step.dependOn(generated);
    const install = b.addInstallArtifact(fuzzer, .{});
    b.step("fuzz-parquet", "Write zig-out/bin/fuzz_parquet").dependOn(&install.step);
}

fn add_tests(b: *std.Build, generated: *std.Build.Step) void {
    const native = b.addTest(.{ .root_module = b.createModule(.{
        .root_source_file = b.path("wasm/src/tests.zig"),
        .target = b.graph.host,
        .optimize = b.option(std.lang.Optimize, "test-optimize", "tests (default: debug)") orelse .debug,
    }) });
    add_options(b, native, true);
    native.step.dependOn(generated);
    b.step("test", "Run the unit tests natively").dependOn(&b.addRunArtifact(native).step);

    // The same tests where usize has 32 bits and vectors are wasm's; tests/abi runs them under
    // wasmtime. Small, because debug trips over a float operation that LLVM lacks for wasm, and
    // safe takes twice as long to build; natively the tests run with every check on.
    const wasi = b.addTest(.{ .name = "unit_tests", .root_module = b.createModule(.{
        .root_source_file = b.path("wasm/src/tests.zig"),
        .target = b.resolveTargetQuery(.{ .cpu_arch = .wasm32, .os_tag = .wasi, .cpu_features_add = wasm_features }),
        .optimize = .small,
        .strip = true,
    }) });
    add_options(b, wasi, true);
    wasi.step.dependOn(generated);
    const install = b.addInstallArtifact(wasi, .{});
    b.step("test-wasm", "Build the unit tests for wasm32-wasi").dependOn(&install.step);
}
