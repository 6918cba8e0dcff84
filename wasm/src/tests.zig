//! Imports every file so that its tests run.
test {
    _ = @import("abi.zig");
    _ = @import("batch_import.zig");
    _ = @import("core/bitmap.zig");
    _ = @import("core/column.zig");
    _ = @import("core/cursor.zig");
    _ = @import("core/heap.zig");
    _ = @import("core/interrupt.zig");
    _ = @import("core/interval.zig");
    _ = @import("core/schema.zig");
    _ = @import("format/text/builder.zig");
    _ = @import("format/text/csv.zig");
    _ = @import("format/text/csv_fuzz.zig");
    _ = @import("format/text/infer.zig");
    _ = @import("format/text/json.zig");
    _ = @import("format/text/json_fuzz.zig");
    _ = @import("kernel/arithmetic.zig");
    _ = @import("kernel/boolean.zig");
    _ = @import("kernel/cast.zig");
    _ = @import("kernel/compare.zig");
    _ = @import("kernel/hash.zig");
    _ = @import("kernel/in_list.zig");
    _ = @import("kernel/like.zig");
    _ = @import("kernel/reduce.zig");
    _ = @import("kernel/sort_keys.zig");
    _ = @import("kernel/take.zig");
    _ = @import("operator/aggregate.zig");
    _ = @import("operator/column_builder.zig");
    _ = @import("operator/group_table.zig");
    _ = @import("operator/row_order.zig");
    _ = @import("operator/sort.zig");
    _ = @import("pipeline.zig");
    _ = @import("plan/expression.zig");
    _ = @import("plan/plan.zig");
    _ = @import("qmcb.zig");
    _ = @import("qmcb_fuzz.zig");
}
