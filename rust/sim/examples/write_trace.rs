//! Writes a small trace as a Perfetto file: `cargo run -p trn3-sim --example write_trace -- PATH`.
//!
//! `tests` reads it back with the classes of the Python package `perfetto`.

use std::fs::File;
use std::io;

use trn3_sim::Picos;
use trn3_sim::trace::{Arg, Sample, Slice, SourceLocation, Trace, Unit, Value, perfetto};

fn main() -> io::Result<()> {
    let path = std::env::args_os().nth(1).unwrap_or_else(|| "bakery.pftrace".into());
    perfetto::write(&bakery(), &mut File::create(path)?)
}

fn bakery() -> Trace {
    let mut trace = Trace::new();
    let mixer = trace.component("street0.bakery.mixer");
    let oven = trace.component("street0.bakery.oven");
    let bakery = trace.process("street0.bakery");
    let (mix, bake, work) = (trace.intern("mix"), trace.intern("bake"), trace.intern("work"));
    let (loaves, flour, kind, heat) =
        (trace.intern("loaves"), trace.intern("flour"), trace.intern("rye"), trace.intern("heat"));
    let location = SourceLocation { file: trace.intern("bread.py"), function: Some(trace.intern("knead")), line: 42 };
    let source = Some(trace.source(location));
    let unit = Unit::Named(trace.intern("kW"));
    let power = trace.counter(bakery, "power", unit);

    let mixed = trace.slice(
        Slice { track: mixer, start: Picos(1_262_417), duration: Picos(415_999), name: mix, category: work, source },
        &[Arg { key: flour, value: Value::Str(kind) }, Arg { key: loaves, value: Value::Int(-3) }],
    );
    for start in [1_700_000, 1_900_000] {
        let slice =
            Slice { track: oven, start: Picos(start), duration: Picos(300_500), name: bake, category: work, source };
        let baked = trace.slice(slice, &[Arg { key: heat, value: Value::Float(0.25) }]);
        trace.flow(mixed, baked);
    }
    trace.sample(power, Picos(0), Sample::Int(0));
    trace.sample(power, Picos(1_700_000), Sample::Float(2.5));
    trace
}
