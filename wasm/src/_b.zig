const std=@import("std");
const calendar=@import("kernel/calendar.zig"); const moment=@import("kernel/moment.zig");
var buf: [16384]i32 align(64) = undefined;
var ts: [16384]i64 align(64) = undefined;
var out: [16384]i64 align(64) = undefined;
var out32: [16384]i32 align(64) = undefined;
export fn fill() void { var p: std.Random.DefaultPrng=.init(1); for (&buf,&ts)|*x,*t| {x.* = p.random().intRangeAtMost(i32,8000,12000); t.*=@as(i64,x.*)*86400000000+p.random().intRangeAtMost(i64,0,86399999999);} }
fn h() i64 { var r: i64=0; for (&out,0..)|x,i| r+%=x*%@as(i64,@intCast(i)); return r; }
export fn year(r:u32) i64 { for (0..r)|_| {calendar.date_part(.year,&buf,&out); std.mem.doNotOptimizeAway(&out);} return h(); }
export fn month(r:u32) i64 { for (0..r)|_| {calendar.date_part(.month,&buf,&out); std.mem.doNotOptimizeAway(&out);} return h(); }
export fn day(r:u32) i64 { for (0..r)|_| {calendar.date_part(.day,&buf,&out); std.mem.doNotOptimizeAway(&out);} return h(); }
export fn week(r:u32) i64 { for (0..r)|_| {calendar.date_part(.week,&buf,&out); std.mem.doNotOptimizeAway(&out);} return h(); }
export fn dow(r:u32) i64 { for (0..r)|_| {calendar.date_part(.dayofweek,&buf,&out); std.mem.doNotOptimizeAway(&out);} return h(); }
export fn tyear(r:u32) i64 { for (0..r)|_| {moment.date_part(.year,&ts,&out); std.mem.doNotOptimizeAway(&out);} return h(); }
export fn thour(r:u32) i64 { for (0..r)|_| {moment.time_part(.hour,&ts,&out); std.mem.doNotOptimizeAway(&out);} return h(); }
export fn tmin(r:u32) i64 { for (0..r)|_| {moment.time_part(.minute,&ts,&out); std.mem.doNotOptimizeAway(&out);} return h(); }
export fn tdays(r:u32) i64 { for (0..r)|_| {moment.days(&ts,&out32); std.mem.doNotOptimizeAway(&out32);} return out32[7]; }
export fn trunc_m(r:u32) i64 { for (0..r)|_| {_=moment.truncate_days(.month,&buf,&out); std.mem.doNotOptimizeAway(&out);} return h(); }
export fn trunc_q(r:u32) i64 { for (0..r)|_| {_=moment.truncate_days(.quarter,&buf,&out); std.mem.doNotOptimizeAway(&out);} return h(); }
export fn trunc_tm(r:u32) i64 { for (0..r)|_| {_=moment.truncate_dates(.month,&ts,&out); std.mem.doNotOptimizeAway(&out);} return h(); }
export fn trunc_h(r:u32) i64 { for (0..r)|_| {moment.truncate_times(.hour,&ts,&out); std.mem.doNotOptimizeAway(&out);} return h(); }
export fn addm(r:u32) i64 { for (0..r)|_| {_=calendar.add_months(&buf,1,&out32); std.mem.doNotOptimizeAway(&out32);} return out32[5]; }
export fn inf(r:u32) i64 { var x: i64=0; for (0..r)|_| {x+=@intFromBool(moment.any_infinite(i32,&buf)); std.mem.doNotOptimizeAway(&buf);} return x; }
