//! The compiled form of an expression: bit sets, and the search through civil time with integers only.
//!
//! Civil time is counted in seconds from 1970-01-01 00:00 of wherever one is: no zone, no leap seconds.

/// What an expression matches. A bit stands for a value; days begin with bit 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Set {
    pub(super) seconds: u64,
    pub(super) minutes: u64,
    pub(super) hours: u64,
    pub(super) months: u64,
    pub(super) days: Days,
    pub(super) weekdays: Weekdays,
    /// Bit n is 1970 + n; `None` is every year.
    pub(super) years: Option<[u64; 4]>,
    /// Both the day and the weekday must match; otherwise one of them is enough.
    pub(super) both: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Days {
    pub(super) plain: u32,
    /// Bit n: n days before the last day of the month.
    pub(super) before_last: u32,
    /// The last weekday that is neither Saturday nor Sunday.
    pub(super) last_working: bool,
    /// Bit d: the working day nearest to day d, in the same month.
    pub(super) nearest_working: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Weekdays {
    /// Bit 0 is Sunday.
    pub(super) plain: u8,
    /// The weekdays of which the first, second, .. fifth in the month matches.
    pub(super) nth: [u8; 5],
    /// The weekdays of which the last in the month matches.
    pub(super) last: u8,
}

pub(super) const DAY: i64 = 86_400;
pub(super) const FIRST_YEAR: i64 = 1970;
pub(super) const LAST_YEAR: i64 = 2199;
/// The calendar repeats itself after 400 years: what has not matched by then never will.
const MONTHS: u32 = 400 * 12 + 1;

impl Set {
    /// The first match at or after `from`.
    pub(super) fn next(&self, from: i64) -> Option<i64> {
        let (mut year, mut month, mut day) = date(from.div_euclid(DAY));
        let mut second = from.rem_euclid(DAY);
        for _ in 0..MONTHS {
            let mut days = self.days_of(year, month) & (u32::MAX << day);
            while days != 0 {
                let found = days.trailing_zeros();
                if found > day {
                    second = 0;
                }
                if let Some(time) = self.time_from(second) {
                    return Some(day_number(year, month, found) * DAY + time);
                }
                days &= days - 1;
            }
            (day, second) = (1, 0);
            if month == 12 || !self.has_year(year) {
                (year, month) = (year + 1, 1);
            } else {
                month += 1;
            }
        }
        None
    }

    /// The last match at or before `until`.
    pub(super) fn previous(&self, until: i64) -> Option<i64> {
        let (mut year, mut month, mut day) = date(until.div_euclid(DAY));
        let mut second = until.rem_euclid(DAY);
        for _ in 0..MONTHS {
            let mut days = self.days_of(year, month) & (u32::MAX >> (31 - day));
            while days != 0 {
                let found = 31 - days.leading_zeros();
                if found < day {
                    second = DAY - 1;
                }
                if let Some(time) = self.time_until(second) {
                    return Some(day_number(year, month, found) * DAY + time);
                }
                days &= !(1 << found);
            }
            (day, second) = (31, DAY - 1);
            if month == 1 || !self.has_year(year) {
                (year, month) = (year - 1, 12);
            } else {
                month -= 1;
            }
        }
        None
    }

    /// Whether this second matches: the definition that the searches are tested against.
    #[cfg(test)]
    pub(super) fn contains(&self, civil: i64) -> bool {
        let (year, month, day) = date(civil.div_euclid(DAY));
        let second = civil.rem_euclid(DAY);
        let has = |set: u64, value: i64| set >> value & 1 == 1;
        self.days_of(year, month) >> day & 1 == 1
            && has(self.hours, second / 3600)
            && has(self.minutes, second / 60 % 60)
            && has(self.seconds, second % 60)
    }

    /// The first matching second of the day at or after this one.
    fn time_from(&self, second: i64) -> Option<i64> {
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        let from = |set: u64, value: i64| -> Option<i64> {
            let rest = if value > 63 { 0 } else { set & (u64::MAX << value) };
            (rest != 0).then(|| i64::from(rest.trailing_zeros()))
        };
        let first =
            |hour: i64| Some(hour * 3600 + from(self.minutes, 0)? * 60 + from(self.seconds, 0)?);
        let found = from(self.hours, hour)?;
        if found > hour {
            return first(found);
        }
        if let Some(found) = from(self.minutes, minute) {
            if found > minute {
                return Some(hour * 3600 + found * 60 + from(self.seconds, 0)?);
            }
            if let Some(second) = from(self.seconds, second) {
                return Some(hour * 3600 + minute * 60 + second);
            }
            if let Some(minute) = from(self.minutes, minute + 1) {
                return Some(hour * 3600 + minute * 60 + from(self.seconds, 0)?);
            }
        }
        first(from(self.hours, hour + 1)?)
    }

    /// The last matching second of the day at or before this one.
    fn time_until(&self, second: i64) -> Option<i64> {
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        let until = |set: u64, value: i64| -> Option<i64> {
            let rest = if value < 0 { 0 } else { set & (u64::MAX >> (63 - value)) };
            (rest != 0).then(|| 63 - i64::from(rest.leading_zeros()))
        };
        let last = |hour: i64| {
            Some(hour * 3600 + until(self.minutes, 59)? * 60 + until(self.seconds, 59)?)
        };
        let found = until(self.hours, hour)?;
        if found < hour {
            return last(found);
        }
        if let Some(found) = until(self.minutes, minute) {
            if found < minute {
                return Some(hour * 3600 + found * 60 + until(self.seconds, 59)?);
            }
            if let Some(second) = until(self.seconds, second) {
                return Some(hour * 3600 + minute * 60 + second);
            }
            if let Some(minute) = until(self.minutes, minute - 1) {
                return Some(hour * 3600 + minute * 60 + until(self.seconds, 59)?);
            }
        }
        last(until(self.hours, hour - 1)?)
    }

    fn has_year(&self, year: i64) -> bool {
        self.years.is_none_or(|years| {
            (FIRST_YEAR..=LAST_YEAR).contains(&year) && {
                let bit = (year - FIRST_YEAR).unsigned_abs();
                years.get((bit / 64) as usize).is_some_and(|word| word >> (bit % 64) & 1 == 1)
            }
        })
    }

    /// The days of a month that match, none if the month or year does not.
    fn days_of(&self, year: i64, month: u32) -> u32 {
        if self.months >> month & 1 == 0 || !self.has_year(year) {
            return 0;
        }
        let length = month_length(year, month);
        let first = weekday(day_number(year, month, 1));
        let all = ((1_u32 << length) - 1) << 1;
        let days = self.days.of(length, first) & all;
        let weekdays = self.weekdays.of(length, first) & all;
        if self.both { days & weekdays } else { days | weekdays }
    }
}

impl Days {
    /// In a month of this length that begins with this weekday.
    fn of(&self, length: u32, first: u32) -> u32 {
        let mut days = self.plain;
        for before in bits(self.before_last).filter(|before| *before < length) {
            days |= 1 << (length - before);
        }
        if self.last_working {
            days |= 1 << nearest_working(length, length, first);
        }
        for day in bits(self.nearest_working).filter(|day| *day <= length) {
            days |= 1 << nearest_working(day, length, first);
        }
        days
    }
}

impl Weekdays {
    /// In a month of this length that begins with this weekday.
    fn of(&self, length: u32, first: u32) -> u32 {
        const WEEKLY: u32 = 1 | 1 << 7 | 1 << 14 | 1 << 21 | 1 << 28;
        let mut days = 0;
        for weekday in 0..7 {
            let earliest = 1 + (weekday + 7 - first) % 7;
            if self.plain >> weekday & 1 == 1 {
                days |= WEEKLY << earliest;
            }
            for (nth, set) in (0_u32..).zip(self.nth) {
                let day = earliest + 7 * nth;
                if set >> weekday & 1 == 1 && day <= length {
                    days |= 1 << day;
                }
            }
            if self.last >> weekday & 1 == 1 {
                days |= 1 << (earliest + (length - earliest) / 7 * 7);
            }
        }
        days
    }
}

/// The working day nearest to `day` within the month.
fn nearest_working(day: u32, length: u32, first: u32) -> u32 {
    match (first + day - 1) % 7 {
        6 if day == 1 => 3,
        6 => day - 1,
        0 if day == length => day - 2,
        0 => day + 1,
        _ => day,
    }
}

pub(super) fn bits(set: u32) -> impl Iterator<Item = u32> {
    (0..32).filter(move |bit| set >> bit & 1 == 1)
}

fn month_length(year: i64, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// 0 is Sunday. 1970-01-01 was a Thursday.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // 0 to 6
fn weekday(day: i64) -> u32 {
    (day + 4).rem_euclid(7) as u32
}

/// Days from 1970-01-01. Years are taken to begin in March, so that the leap day is their last.
pub(super) fn day_number(year: i64, month: u32, day: u32) -> i64 {
    let month = i64::from(month);
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + (month * 153 + 2) / 5 + i64::from(day) - 1 - 719_468
}

/// Year, month and day of a day counted from 1970-01-01.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // 1 to 12, 1 to 31
pub(super) fn date(number: i64) -> (i64, u32, u32) {
    // Days from 0000-03-01, in eras of 400 years.
    let (era, of_era) =
        ((number + 719_468).div_euclid(146_097), (number + 719_468).rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let year = year + era * 400;
    if month < 10 {
        (year, month as u32 + 3, day as u32)
    } else {
        (year + 1, month as u32 - 9, day as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let mut expected = jiff::civil::date(1890, 1, 1);
        for number in day_number(1890, 1, 1)..day_number(2210, 1, 1) {
            let (year, month, day) = date(number);
            let is = (i64::from(expected.year()), expected.month() as u32, expected.day() as u32);
            assert_eq!((year, month, day), is);
            assert_eq!(day_number(year, month, day), number);
            assert_eq!(weekday(number), expected.weekday().to_sunday_zero_offset() as u32);
            assert_eq!(month_length(year, month), expected.days_in_month() as u32);
            expected = expected.tomorrow().unwrap();
        }
    }

    #[test]
    fn both_searches_find_what_a_look_at_each_second_finds() {
        let (least, most) = (day_number(2024, 2, 28) * DAY, day_number(2024, 3, 2) * DAY);
        for (seconds, minutes, hours) in [
            (1 << 59, 1, 1 << 23),
            (1 | 1 << 30, 1 << 59 | 1 << 7, 1 | 1 << 12),
            (u64::MAX >> 4, 1 << 59, 1 << 22 | 1 << 23),
            (1 << 17 | 1 << 3, u64::MAX >> 4, 1 << 5),
        ] {
            let days = Days { plain: 1 << 29, before_last: 1 << 1, ..Days::default() };
            let weekdays = Weekdays { plain: 0x7f, ..Weekdays::default() };
            let months = 1 << 2 | 1 << 3;
            let set =
                Set { seconds, minutes, hours, months, days, weekdays, years: None, both: true };
            let matches: std::vec::Vec<i64> =
                (least..most).filter(|at| set.contains(*at)).collect();
            let (mut at, mut found) = (least, std::vec::Vec::new());
            while let Some(next) = set.next(at).filter(|next| *next < most) {
                found.push(next);
                at = next + 1;
            }
            assert_eq!(found, matches);
            found.clear();
            at = most - 1;
            while let Some(previous) = set.previous(at).filter(|previous| *previous >= least) {
                found.insert(0, previous);
                at = previous - 1;
            }
            assert_eq!(found, matches);
            assert!(!matches.is_empty());
        }
    }
}
