//! A chat server: whatever one says, all others hear. Something to copy and to change.
//!
//! `chat_server 0.0.0.0:7777` serves; `chat_server --try` talks to itself for a moment, and ends.

fn main() {}
