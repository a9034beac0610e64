//! What is wrong with an expression, where, and what would be right.

use alloc::string::String;
use core::fmt;
use core::ops::Range;

/// A field of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Field {
    /// 0 to 59; only in expressions of six or seven fields.
    Second,
    /// 0 to 59.
    Minute,
    /// 0 to 23.
    Hour,
    /// 1 to 31.
    Day,
    /// 1 to 12, or a name.
    Month,
    /// 0 to 7, where 0 and 7 are Sunday, or a name; in quartz 1 (Sunday) to 7.
    Weekday,
    /// 1970 to 2199; only in expressions of seven fields.
    Year,
}

/// Why a text is no expression or schedule: one line that points at the place and says what is allowed.
///
/// ```
/// use mainspring::cron::{Expression, Field};
///
/// let error = Expression::parse("0 25 * * *").unwrap_err();
/// assert_eq!(error.field(), Some(Field::Hour));
/// assert_eq!(error.to_string(), "hour field, character 3: `25` is out of range; allowed are 0 to 23");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    pub(super) field: Option<Field>,
    pub(super) span: Range<usize>,
    pub(super) what: String,
}

impl ParseError {
    pub(super) fn whole(text: &str, what: impl Into<String>) -> Self {
        Self { field: None, span: 0..text.len(), what: what.into() }
    }

    /// The field at fault, if it is one.
    #[must_use]
    pub fn field(&self) -> Option<Field> {
        self.field
    }

    /// The bytes at fault in the text that was given.
    #[must_use]
    pub fn span(&self) -> Range<usize> {
        self.span.clone()
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Month => "month",
            Self::Weekday => "weekday",
            Self::Year => "year",
        })
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(field) = self.field {
            write!(f, "{field} field, character {}: ", self.span.start + 1)?;
        }
        f.write_str(&self.what)
    }
}

impl core::error::Error for ParseError {}
