//! From text to bit sets.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::calendar::{Days, FIRST_YEAR, Set, Weekdays};
use super::error::{Field, ParseError};
use super::expression::Dialect;

/// What is left of a text once it is read.
#[derive(Debug)]
pub(super) struct Parsed {
    /// The fields as they are printed: capitals, one space, no `H`.
    pub(super) text: String,
    pub(super) set: Set,
    /// It has a second field, or its minute or hour field begins with a star.
    pub(super) is_interval: bool,
}

/// Longer texts are refused.
const LONGEST: usize = 1000;

const FIVE: &[Field] = &[Field::Minute, Field::Hour, Field::Day, Field::Month, Field::Weekday];
const SEVEN: &[Field] = &[
    Field::Second,
    Field::Minute,
    Field::Hour,
    Field::Day,
    Field::Month,
    Field::Weekday,
    Field::Year,
];

const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

pub(super) fn parse(text: &str, dialect: Dialect, id: Option<&str>) -> Result<Parsed, ParseError> {
    if text.len() > LONGEST {
        return Err(ParseError::whole(
            text,
            format!("an expression has up to {LONGEST} characters"),
        ));
    }
    let upper = text.to_ascii_uppercase();
    let upper = match upper.trim() {
        "" => return Err(ParseError::whole(text, "the expression is empty; try `30 2 * * *`")),
        word if word.starts_with('@') => Cow::Borrowed(macro_fields(text, word, dialect)?),
        _ => Cow::Owned(upper),
    };
    let words: Vec<(usize, &str)> = words(&upper).collect();
    let fields: &[Field] = match (words.len(), dialect) {
        (5, Dialect::Mainspring | Dialect::Vixie) => FIVE,
        (6, Dialect::Mainspring | Dialect::Quartz) => &SEVEN[..6],
        (7, Dialect::Mainspring | Dialect::Quartz) => SEVEN,
        (count, _) => {
            let wanted = match dialect {
                Dialect::Mainspring => {
                    "give 5 (minute hour day month weekday), 6 (a second before them) or 7 (a year behind)"
                }
                Dialect::Vixie => "the vixie dialect has 5 (minute hour day month weekday)",
                Dialect::Quartz => {
                    "the quartz dialect has 6 (second minute hour day month weekday) or 7 (a year behind)"
                }
            };
            let plural = if count == 1 { "" } else { "s" };
            return Err(ParseError::whole(text, format!("{count} field{plural}; {wanted}")));
        }
    };
    Fields { dialect, id, read: Vec::new() }.read(text, fields, &words)
}

/// Words and where they begin.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let start = text.as_ptr() as usize;
    text.split_ascii_whitespace().map(move |word| (word.as_ptr() as usize - start, word))
}

fn macro_fields(text: &str, word: &str, dialect: Dialect) -> Result<&'static str, ParseError> {
    if dialect == Dialect::Quartz {
        return Err(ParseError::whole(
            text,
            "the quartz dialect has no @ names; write the fields out",
        ));
    }
    Ok(match word {
        "@YEARLY" | "@ANNUALLY" => "0 0 1 1 *",
        "@MONTHLY" => "0 0 1 * *",
        "@WEEKLY" => "0 0 * * 0",
        "@DAILY" | "@MIDNIGHT" => "0 0 * * *",
        "@HOURLY" => "0 * * * *",
        "@REBOOT" => {
            let what = "@reboot names no time: run it when your program starts";
            return Err(ParseError::whole(text, what));
        }
        _ if word.starts_with("@EVERY") => {
            let what = "@every is a schedule, not an expression: read it with Schedule::parse, as in `@every 90s`";
            return Err(ParseError::whole(text, what));
        }
        _ => {
            let what =
                "unknown @ name; there are @yearly, @monthly, @weekly, @daily, @hourly and @every";
            return Err(ParseError::whole(text, what));
        }
    })
}

struct Fields<'a> {
    dialect: Dialect,
    id: Option<&'a str>,
    read: Vec<Values>,
}

/// What one field says.
struct Values {
    field: Field,
    text: String,
    span: core::ops::Range<usize>,
    bits: [u64; 4],
    days: Days,
    weekdays: Weekdays,
}

impl Fields<'_> {
    fn read(
        mut self,
        text: &str,
        fields: &[Field],
        words: &[(usize, &str)],
    ) -> Result<Parsed, ParseError> {
        let mut asks_for_both = false;
        for (&field, &(at, word)) in fields.iter().zip(words) {
            let mut values = Values {
                field,
                text: String::new(),
                span: at..at + word.len(),
                bits: [0; 4],
                days: Days::default(),
                weekdays: Weekdays::default(),
            };
            let (mut item_at, mut rest) = (at, word);
            if field == Field::Weekday
                && self.dialect == Dialect::Mainspring
                && let Some(behind) = word.strip_prefix('+')
            {
                asks_for_both = true;
                (item_at, rest) = (at + 1, behind);
                values.text.push('+');
            }
            for (nth, item) in rest.split(',').enumerate() {
                let span = item_at..item_at + item.len();
                item_at = span.end + 1;
                if nth > 0 {
                    values.text.push(',');
                }
                self.item(&mut values, item).map_err(|what| ParseError {
                    field: Some(field),
                    span,
                    what,
                })?;
            }
            self.read.push(values);
        }
        self.compile(text, asks_for_both)
    }

    fn compile(self, text: &str, asks_for_both: bool) -> Result<Parsed, ParseError> {
        let bits = |field: Field| {
            self.read.iter().find(|values| values.field == field).map(|values| values.bits)
        };
        let star = |field: Field| {
            self.read
                .iter()
                .find(|values| values.field == field)
                .is_some_and(|values| values.text.starts_with(['*', '?']))
        };
        let question = |field: Field| {
            self.read.iter().any(|values| values.field == field && values.text == "?")
        };
        if self.dialect == Dialect::Quartz && question(Field::Day) == question(Field::Weekday) {
            let weekday = self.read.iter().find(|values| values.field == Field::Weekday);
            return Err(ParseError {
                field: Some(Field::Weekday),
                span: weekday.map_or(0..text.len(), |values| values.span.clone()),
                what: "in the quartz dialect one of day and weekday, and not both, is `?`"
                    .to_string(),
            });
        }
        let plain = |field: Field| bits(field).map_or(1, |bits| bits[0]);
        let set = Set {
            seconds: plain(Field::Second),
            minutes: plain(Field::Minute),
            hours: plain(Field::Hour),
            months: plain(Field::Month),
            years: bits(Field::Year),
            both: asks_for_both || star(Field::Day) || star(Field::Weekday),
            days: Days { plain: low(plain(Field::Day)), ..self.days() },
            weekdays: Weekdays {
                plain: low(plain(Field::Weekday)).to_le_bytes()[0],
                ..self.weekdays()
            },
        };
        let is_interval = bits(Field::Second).is_some() || star(Field::Minute) || star(Field::Hour);
        let words: Vec<String> = self.read.into_iter().map(|values| values.text).collect();
        Ok(Parsed { text: words.join(" "), set, is_interval })
    }

    fn days(&self) -> Days {
        let day = self.read.iter().find(|values| values.field == Field::Day);
        day.map_or_else(Days::default, |values| values.days.clone())
    }

    fn weekdays(&self) -> Weekdays {
        let weekday = self.read.iter().find(|values| values.field == Field::Weekday);
        weekday.map_or_else(Weekdays::default, |values| values.weekdays.clone())
    }

    /// One item of a list.
    fn item(&self, values: &mut Values, item: &str) -> Result<(), String> {
        let field = values.field;
        if item.is_empty() {
            return Err(format!("an item is missing; {}", self.allowed(field)));
        }
        if item.starts_with('H') && self.dialect == Dialect::Mainspring {
            let resolved = self.spread(field, item)?;
            return self.plain_item(values, &resolved);
        }
        if self.dialect != Dialect::Vixie {
            let is_special = match field {
                Field::Day => self.day_item(values, item)?,
                Field::Weekday => self.weekday_item(values, item)?,
                _ => false,
            };
            if is_special {
                values.text.push_str(item);
                return Ok(());
            }
        }
        self.plain_item(values, item)
    }

    /// `*`, `7`, `1-5`, `1-5/2` and the like.
    fn plain_item(&self, values: &mut Values, item: &str) -> Result<(), String> {
        let field = values.field;
        let (least, most) = self.range(field);
        let (base, step) = match item.split_once('/') {
            Some((base, step)) => (base, Some(step)),
            None => (item, None),
        };
        let (from, to) = if base == "*" {
            (least, if field == Field::Weekday { least + 6 } else { most })
        } else if base == "?" && step.is_none() && self.dialect != Dialect::Vixie {
            if !matches!(field, Field::Day | Field::Weekday) {
                return Err("`?` stands in the day and weekday fields only; write `*`".to_string());
            }
            (least, if field == Field::Weekday { least + 6 } else { most })
        } else if let Some((from, to)) = base.split_once('-') {
            (self.value(field, from)?, self.value(field, to)?)
        } else {
            let from = self.value(field, base)?;
            match step {
                Some(_) if self.dialect == Dialect::Quartz => (from, most),
                Some(step) => {
                    return Err(format!(
                        "a step needs a range: write `{base}-{most}/{step}`, or `*/{step}`"
                    ));
                }
                None => (from, from),
            }
        };
        // A range that goes round: 22-2, FRI-MON. Sunday as 7 stands for 0 where it begins one.
        let span = if field == Field::Weekday { 7 } else { most - least + 1 };
        let from =
            if from > to && field == Field::Weekday && from == least + 7 { least } else { from };
        let last = if from <= to {
            to
        } else if field == Field::Year {
            return Err(format!("`{base}` goes backwards"));
        } else {
            to + span
        };
        let step = match step.map(str::parse::<u32>) {
            None => 1,
            Some(Ok(step)) if (1..=most).contains(&step) => step,
            Some(_) => {
                return Err(format!(
                    "the step of `{item}` is out of range; allowed are 1 to {most}"
                ));
            }
        };
        for value in (from..=last).step_by(step as usize) {
            let value = match field {
                Field::Year => value - least,
                _ if value >= least + span => value - span,
                _ => value,
            };
            let bit = if self.dialect == Dialect::Quartz && field == Field::Weekday {
                value - 1
            } else {
                value
            };
            if let Some(word) = values.bits.get_mut((bit / 64) as usize) {
                *word |= 1 << (bit % 64);
            }
        }
        values.text.push_str(item);
        Ok(())
    }

    /// `L`, `L-3`, `LW`, `15W`.
    fn day_item(&self, values: &mut Values, item: &str) -> Result<bool, String> {
        let days = &mut values.days;
        if item == "LW" {
            days.last_working = true;
        } else if item == "L" {
            days.before_last |= 1;
        } else if let Some(before) = item.strip_prefix("L-") {
            match before.parse::<u32>() {
                Ok(before @ 0..=30) => days.before_last |= 1 << before,
                _ => return Err(format!("`{item}`: up to 30 days before the last are allowed")),
            }
        } else if let Some(day) = item.strip_suffix('W') {
            let day = self.value(Field::Day, day)?;
            days.nearest_working |= 1 << day;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// `5L`, `FRI#L`, `MON#2`.
    fn weekday_item(&self, values: &mut Values, item: &str) -> Result<bool, String> {
        let bit = |name: &str| -> Result<u8, String> {
            let value = self.value(Field::Weekday, name)?;
            let sunday = u32::from(self.dialect == Dialect::Quartz);
            Ok(1 << ((value - sunday) % 7))
        };
        let last = item.strip_suffix("#L").or_else(|| item.strip_suffix('L'));
        match (last, item.split_once('#')) {
            (Some(""), _) if self.dialect == Dialect::Quartz => {
                values.weekdays.nth = {
                    // Alone it is the last day of the week.
                    let mut nth = values.weekdays.nth;
                    nth.iter_mut().for_each(|set| *set |= 1 << 6);
                    nth
                }
            }
            (Some(""), _) => {
                return Err("`L` needs a weekday before it: `5L` or `FRI#L` is the last Friday of the month".to_string());
            }
            (Some(name), _) => values.weekdays.last |= bit(name)?,
            (None, Some((name, nth))) => {
                let bit = bit(name)?;
                let nth = nth.parse::<usize>().ok().and_then(|nth| nth.checked_sub(1));
                match nth.and_then(|nth| values.weekdays.nth.get_mut(nth)) {
                    Some(set) => *set |= bit,
                    None => {
                        return Err(format!(
                            "`{item}`: behind `#` stands 1 to 5, or L for the last"
                        ));
                    }
                }
            }
            (None, None) => return Ok(false),
        }
        Ok(true)
    }

    /// `H`, `H/15`, `H(0-29)`, `H(0-29)/10` as what they stand for.
    fn spread(&self, field: Field, item: &str) -> Result<String, String> {
        let Some(id) = self.id else {
            return Err(
                "`H` spreads by an id: give one, with Expression::parse_with or --id".to_string()
            );
        };
        let (base, step) = match item.split_once('/') {
            Some((base, step)) => (base, Some(step)),
            None => (item, None),
        };
        // Every month has 28 days.
        let (least, most) = match field {
            Field::Day => (1, 28),
            Field::Weekday => (0, 6),
            _ => self.range(field),
        };
        let inside = base.strip_prefix("H(").and_then(|rest| rest.strip_suffix(')'));
        let (from, to) = match inside.and_then(|range| range.split_once('-')) {
            Some((from, to)) => (self.value(field, from)?, self.value(field, to)?),
            None if base == "H" => (least, most),
            None => return Err(format!("`{item}`: allowed are H, H/15, H(0-29) and H(0-29)/10")),
        };
        if from > to {
            return Err(format!("`{item}` goes backwards"));
        }
        let hash = hash(id, field as u64);
        let pick = |count: u32| low(hash % u64::from(count));
        match step.map(str::parse::<u32>) {
            None => Ok(format!("{}", from + pick(to - from + 1))),
            Some(Ok(step)) if (1..=to - from + 1).contains(&step) => {
                Ok(format!("{}-{to}/{step}", from + pick(step)))
            }
            Some(_) => Err(format!(
                "the step of `{item}` is out of range; allowed are 1 to {}",
                to - from + 1
            )),
        }
    }

    /// A number or a name.
    fn value(&self, field: Field, text: &str) -> Result<u32, String> {
        let (least, most) = self.range(field);
        let names: &[&str] = match field {
            Field::Month => &MONTHS,
            Field::Weekday => &WEEKDAYS,
            _ => &[],
        };
        if let Some(value) =
            (0..).zip(names).find_map(|(value, name)| (*name == text).then_some(value))
        {
            let first = u32::from(field == Field::Month || self.dialect == Dialect::Quartz);
            return Ok(value + first);
        }
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse::<u32>() {
            Ok(value) if is_number && (least..=most).contains(&value) => Ok(value),
            _ if is_number => Err(format!("`{text}` is out of range; {}", self.allowed(field))),
            _ if text.is_empty() => Err(format!("a number is missing; {}", self.allowed(field))),
            _ => Err(format!("`{text}` is not known here; {}", self.allowed(field))),
        }
    }

    fn range(&self, field: Field) -> (u32, u32) {
        match field {
            Field::Second | Field::Minute => (0, 59),
            Field::Hour => (0, 23),
            Field::Day => (1, 31),
            Field::Month => (1, 12),
            Field::Weekday if self.dialect == Dialect::Quartz => (1, 7),
            Field::Weekday => (0, 7),
            Field::Year => (low(FIRST_YEAR.unsigned_abs()), 2199),
        }
    }

    fn allowed(&self, field: Field) -> String {
        let (least, most) = self.range(field);
        let names = match field {
            Field::Month => ", JAN to DEC",
            Field::Weekday if self.dialect == Dialect::Quartz => " (1 is Sunday), SUN to SAT",
            Field::Weekday => " (0 and 7 are Sunday), SUN to SAT",
            _ => "",
        };
        format!("allowed are {least} to {most}{names}")
    }
}

/// The same number for the same id, on every machine and in every version.
pub(super) fn hash(id: &str, salt: u64) -> u64 {
    let bytes = id.bytes().chain(salt.to_le_bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    // The low bits of the product depend on few bits of the text.
    let hash = (hash ^ hash >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^ hash >> 29
}

/// The low half, of what fits there.
#[allow(clippy::cast_possible_truncation)] // see above
fn low(bits: u64) -> u32 {
    bits as u32
}
