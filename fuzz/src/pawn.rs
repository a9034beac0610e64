//! Scripts with bytes changed: an error, or a run within memory and budget; never a panic, never a hang.

use std::time::Duration;

use mainspring::time::Instant;
use mainspring_pawn::Image;
use mainspring_pawn::host::{Host, Options, Profile};
use mainspring_pawn::script;

use crate::Bytes;

const SCRIPTS: [&[u8]; 5] = [
    include_bytes!("../../crates/mainspring-pawn/tests/fixtures/bin/t14_emit.O1nc.amx"),
    include_bytes!("../../crates/mainspring-pawn/tests/fixtures/bin/t08_publics.d3nc.amx"),
    include_bytes!("../../crates/mainspring-pawn/tests/fixtures/bin/t19_macro_ops.O1nc.amx"),
    include_bytes!("../../crates/mainspring-pawn/tests/fixtures/bin/t10_timers.O1.amx"),
    include_bytes!("../../pawn/timers.amx"),
];

/// The first byte chooses a script, the rest says what is changed in it, or is the file itself.
pub fn pawn(data: &[u8]) {
    let mut bytes = Bytes(data);
    let choice = usize::from(bytes.byte());
    let file = match SCRIPTS.get(choice % (SCRIPTS.len() + 1)) {
        None => bytes.0.to_vec(),
        Some(script) => {
            let mut file = script.to_vec();
            for _ in 0..bytes.byte() % 16 {
                let place =
                    (usize::from(bytes.byte()) << 8 | usize::from(bytes.byte())) % file.len();
                file[place] = bytes.byte();
            }
            if bytes.byte() % 16 == 0 {
                file.truncate(usize::from(bytes.byte()) * 8);
            }
            file
        }
    };
    let Ok(image) = Image::parse(&file) else { return };
    let publics: Vec<String> = image.publics.iter().map(|public| public.name.clone()).collect();
    let options = Options { scripted: true, budget: 2_000, ..Options::new(Profile::OpenMp) };
    let output = Box::new(std::io::sink());
    let Ok(mut host) = Host::new(image, options, Instant::ORIGIN, output) else { return };
    host.start(Instant::ORIGIN);
    for name in publics.iter().take(8) {
        let line = format!("call {name} i:3 s:text a:1,2,3 r:7");
        let _ = script::run_line(&mut host, &line);
    }
    host.tick(Instant::ORIGIN.saturating_add(Duration::from_secs(1)), 200);
    let held = host.machine().memory_bytes();
    assert!(held <= (64 << 20) + file.len() * 64, "{held} bytes held");
}
