//! Damage to JSON that keeps it JSON: what a reader's types must refuse, rather than its parser.

use serde_json::{Value, json};

use crate::mutate::{Script, mutate};

/// Most damages of one document.
const DAMAGES_MAX: usize = 4;
/// Most copies of an element.
const COPIES_MAX: usize = 20;
const WORDS: &[&str] =
    &["{", "}", "[", "]", ",", ":", "\"", "null", "true", "\\u0000", "\\ud800", "NaN", "-", "{\"a\":"];

/// Valid documents, both as values and as bytes.
#[derive(Debug)]
pub struct Documents {
    values: Vec<Value>,
    texts: Vec<Vec<u8>>,
}

impl Documents {
    /// Those documents.
    ///
    /// # Panics
    /// If there are none.
    #[must_use]
    pub fn new(values: Vec<Value>) -> Self {
        assert!(!values.is_empty(), "a corpus is not empty");
        let texts = values.iter().map(|value| value.to_string().into_bytes()).collect();
        Self { values, texts }
    }

    /// One of them, damaged as a value or as a text.
    pub fn damaged(&self, script: &mut Script<'_>) -> Vec<u8> {
        if script.byte() % 4 == 3 {
            return mutate(&self.texts, WORDS, script);
        }
        let mut value = script.pick(&self.values).clone();
        for _ in 0..=script.below(DAMAGES_MAX) {
            damage(&mut value, script);
        }
        value.to_string().into_bytes()
    }
}

/// The place that the script leads to, from the root down; the deeper, the more likely it stays.
fn place<'a>(value: &'a mut Value, script: &mut Script<'_>) -> &'a mut Value {
    let inside = match value {
        Value::Object(fields) => fields.len(),
        Value::Array(items) => items.len(),
        _ => 0,
    };
    if inside == 0 || script.byte() % 8 == 7 {
        return value;
    }
    let index = script.below(inside);
    match value {
        Value::Object(fields) => place(fields.values_mut().nth(index).expect("below its length"), script),
        Value::Array(items) => place(&mut items[index], script),
        other => other,
    }
}

/// Changes one place of `value`.
fn damage(value: &mut Value, script: &mut Script<'_>) {
    let place = place(value, script);
    match script.byte() % 12 {
        0 => *place = Value::Null,
        1 => *place = json!(script.number()),
        2 => *place = json!(script.number().wrapping_neg().cast_signed()),
        3 => *place = json!(*script.pick(&[0.0, -1.0, 1e308, -1e308, 1e-320, 0.5, 1e19, 1.797_693_134_862_315_7e308])),
        4 => *place = json!(String::from_utf8_lossy(script.bytes(40))),
        5 => *place = json!([]),
        6 => *place = json!({}),
        7 => {
            *place =
                json!(*script.pick(&["", "ok", "failed", "a,b\n\"c\"", "<script>", "\u{202e}", "=1+1", "../..", "1e9"]))
        }
        8 => *place = json!("x".repeat(script.below(3_000))),
        9 => {
            if let Value::Array(items) = place
                && !items.is_empty()
            {
                let index = script.below(items.len());
                let copies = script.below(COPIES_MAX);
                let copy = items[index].clone();
                items.extend(std::iter::repeat_n(copy, copies));
            } else if let Value::Object(fields) = place {
                fields.insert(String::from_utf8_lossy(script.bytes(8)).into_owned(), json!(script.number()));
            }
        }
        10 => {
            if let Value::Object(fields) = place
                && !fields.is_empty()
            {
                let index = script.below(fields.len());
                let name = fields.keys().nth(index).cloned().unwrap_or_default();
                fields.remove(&name);
            } else if let Value::Array(items) = place {
                items.pop();
            }
        }
        _ => {
            if let Value::Number(number) = &place {
                let changed = number.as_f64().unwrap_or(0.0) * script.pick(&[-1.0, 0.0, 2.0, 1e9, 1e-9]);
                *place = json!(changed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_reaches_what_is_deep_inside() {
        let documents = Documents::new(vec![json!({"a": [{"b": 1}]})]);
        let reached = (0..=u8::MAX).any(|seed| {
            let script: Vec<u8> = (0..64).map(|at: u8| at.wrapping_mul(seed).wrapping_add(seed)).collect();
            let text = documents.damaged(&mut Script::new(&script));
            serde_json::from_slice::<Value>(&text)
                .is_ok_and(|value| value["a"][0]["b"] != json!(1) && value["a"][0].is_object())
        });
        assert!(reached);
    }
}
