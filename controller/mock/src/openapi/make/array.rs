//! Generator of arrays.

use serde_json::{Map, Value};

use super::{Maker, bounds};

/// Maximum number of items.
const MAX_ITEMS: usize = 1_000;

impl Maker<'_> {
    pub(super) fn array(&mut self, map: &Map<String, Value>, depth: usize) -> Option<Value> {
        let (least, most) = bounds(map, "minItems", "maxItems");
        let unique = map.get("uniqueItems") == Some(&Value::Bool(true));
        let mut items: Vec<Value> = Vec::new();
        if let Some(Value::Array(first)) = map.get("prefixItems") {
            for schema in first.iter().take(most) {
                let Some(item) = self.inside(&items.len().to_string(), schema, depth + 1) else {
                    break;
                };
                items.push(item);
            }
        }
        if let Some(contained) = map.get("contains") {
            let wanted = map.get("minContains").and_then(Value::as_u64).unwrap_or(1);
            for _ in 0..wanted {
                items.push(self.inside(&items.len().to_string(), contained, depth + 1)?);
            }
        }
        let any = Value::Object(Map::from_iter([("type".to_owned(), Value::from("string"))]));
        let schema = match map.get("items") {
            Some(Value::Bool(true)) | None => &any,
            Some(schema) => schema,
        };
        let one = usize::from(items.is_empty() && self.includes_optional(schema, depth));
        let wanted = least.max(one).min(most).min(MAX_ITEMS);
        let mut tries = 0;
        while items.len() < wanted {
            // Each retry of a duplicate item draws another value.
            let outer = std::mem::replace(&mut self.item_retries, tries);
            let item = self.inside(&items.len().to_string(), schema, depth + 1);
            self.item_retries = outer;
            let Some(item) = item else { break };
            if !(unique && items.contains(&item)) {
                items.push(item);
                continue;
            }
            tries += 1;
            if tries > 32 {
                break;
            }
        }
        (items.len() >= least).then_some(Value::Array(items))
    }
}
