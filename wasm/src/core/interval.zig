//! Intervals: months, days and nanoseconds, which are compared by their length.
//!
//! A month counts 30 days and a day 24 hours, as in DuckDB: one month equals thirty days.

/// As the column stores it: core/schema.zig.
pub const Interval = extern struct {
    months: i32,
    days: i32,
    nanoseconds: i64,
};

/// The length of an interval: whole days, and what is left of one. In nanoseconds alone it would
/// not fit 64 bits.
pub const Span = struct {
    days: i64,
    rest: i64,

    pub const day_nanoseconds: i64 = 24 * 60 * 60 * 1_000_000_000;
    pub const month_days: i64 = 30;

    pub inline fn of(interval: Interval) Span {
        const whole = @divFloor(interval.nanoseconds, day_nanoseconds);
        return .{
            .days = @as(i64, interval.months) * month_days + interval.days + whole,
            .rest = @mod(interval.nanoseconds, day_nanoseconds),
        };
    }

    pub inline fn less(a: Span, b: Span) bool {
        return a.days < b.days or (a.days == b.days and a.rest < b.rest);
    }

    pub inline fn equal(a: Span, b: Span) bool {
        return a.days == b.days and a.rest == b.rest;
    }
};
