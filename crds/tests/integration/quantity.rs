//! Parsing and printing of durations, sizes and CPU counts.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use argus_crds::{ByteSize, CpuCount, HumanDuration, QuantityError};
use proptest::prelude::*;

#[test]
fn durations_parse_and_print() {
    for (text, milliseconds, canonical) in [
        ("100ms", 100, "100ms"),
        ("5s", 5000, "5s"),
        ("2m", 120_000, "2m"),
        ("1h", 3_600_000, "1h"),
        ("90d", 90 * 86_400_000, "90d"),
        ("30000", 30_000, "30s"),
        ("1.5s", 1500, "1500ms"),
        ("1h30m", 5_400_000, "90m"),
        ("1m 30s", 90_000, "90s"),
        (" 2 s ", 2000, "2s"),
        ("0", 0, "0ms"),
        ("3650d", 3650 * 86_400_000, "3650d"),
    ] {
        let duration: HumanDuration = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(duration, HumanDuration::from_millis(milliseconds), "{text}");
        assert_eq!(duration.to_string(), canonical, "{text}");
    }
    for (text, error) in [
        ("", QuantityError::Empty),
        ("soon", QuantityError::NotANumber),
        ("-5s", QuantityError::Negative),
        ("5 parsecs", QuantityError::Unit),
        ("5 5", QuantityError::Unit),
        ("1s5", QuantityError::Unit),
        ("3651d", QuantityError::TooLarge),
        ("99999999999999h", QuantityError::TooLarge),
        (
            "99999999999999999999999999999999999999999",
            QuantityError::TooLarge,
        ),
        ("1.2.3s", QuantityError::NotANumber),
        ("1.s", QuantityError::NotANumber),
        ("1e3", QuantityError::Unit),
    ] {
        assert_eq!(text.parse::<HumanDuration>(), Err(error), "{text}");
    }
}

#[test]
fn sizes_parse_and_print() {
    for (text, bytes, canonical) in [
        ("500MB", 500_000_000, "500MB"),
        ("2GB", 2_000_000_000, "2GB"),
        ("1TB", 1_000_000_000_000, "1TB"),
        ("2g", 1 << 31, "2GiB"),
        ("512m", 512 << 20, "512MiB"),
        ("64k", 64 << 10, "64KiB"),
        ("2Gi", 1 << 31, "2GiB"),
        ("1.5GiB", 3 << 29, "1536MiB"),
        ("1024", 1024, "1KiB"),
        ("17B", 17, "17B"),
        ("0", 0, "0B"),
    ] {
        let size: ByteSize = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(
            (size.bytes(), size.to_string().as_str()),
            (bytes, canonical),
            "{text}"
        );
    }
    for (text, error) in [
        ("", QuantityError::Empty),
        ("-1", QuantityError::Negative),
        ("1e3", QuantityError::Unit),
        ("2 GB 3", QuantityError::Unit),
        ("big", QuantityError::NotANumber),
        ("2000000TB", QuantityError::TooLarge),
        ("18446744073709551616", QuantityError::TooLarge),
    ] {
        assert_eq!(text.parse::<ByteSize>(), Err(error), "{text}");
    }
}

#[test]
fn cpu_counts_parse_and_print() {
    for (text, nanos, canonical) in [
        ("1.5", 1_500_000_000, "1.5"),
        ("2", 2_000_000_000, "2"),
        ("0.25", 250_000_000, "0.25"),
    ] {
        let count: CpuCount = text.parse().unwrap();
        assert_eq!((count.nanos(), count.to_string().as_str()), (nanos, canonical));
    }
    assert_eq!("2 cores".parse::<CpuCount>(), Err(QuantityError::Unit));
    assert_eq!("5000".parse::<CpuCount>(), Err(QuantityError::TooLarge));
}

proptest! {
    #[test]
    fn printed_values_parse_again(milliseconds in 0u64..315_360_000_000, bytes in 0u64..1_000_000_000_000_000_000) {
        let duration = HumanDuration::from_millis(milliseconds);
        prop_assert_eq!(duration.to_string().parse(), Ok(duration));
        let size = ByteSize::from_bytes(bytes);
        prop_assert_eq!(size.to_string().parse(), Ok(size));
    }

    #[test]
    fn arbitrary_text_never_panics(text in any::<String>(), digits in "[0-9.]{0,40}[a-zA-Z]{0,3}") {
        for text in [text, digits] {
            let _ = (text.parse::<HumanDuration>(), text.parse::<ByteSize>(), text.parse::<CpuCount>());
        }
    }
}
