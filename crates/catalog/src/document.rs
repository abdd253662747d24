//! One document of a catalog, read in a single pass.
//!
//! Which fields matter depends on the schema, and the schema may come last, so everything that any
//! schema needs is read at the same time. Keys are matched without regard to case, as in Go.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::text::Text;

/// A list with more items than this is not a catalog.
const MAX_ITEMS: usize = 200_000;

/// All fields that any schema uses. What is absent is empty.
#[derive(Debug, Default)]
pub(crate) struct Document<'a> {
    pub(crate) schema: Text<'a>,
    pub(crate) package: Text<'a>,
    pub(crate) name: Text<'a>,
    pub(crate) image: Text<'a>,
    pub(crate) default_channel: Text<'a>,
    pub(crate) properties: Items<Property<'a>>,
    pub(crate) related_images: Items<RelatedImage<'a>>,
    /// Of a channel or of deprecations, which differ.
    pub(crate) entries: Option<&'a RawValue>,
}

/// What every document has, whatever its schema makes of the other fields.
#[derive(Debug, Default)]
pub(crate) struct Head<'a> {
    pub(crate) schema: Text<'a>,
    pub(crate) package: Text<'a>,
    pub(crate) name: Text<'a>,
}

/// One property of a bundle. The value is read when its type is one that matters.
#[derive(Debug, Default)]
pub(crate) struct Property<'a> {
    pub(crate) kind: Text<'a>,
    pub(crate) value: Option<&'a RawValue>,
}

/// An image that a bundle needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RelatedImage<'a> {
    /// May be empty, and may be no file name.
    pub name: Text<'a>,
    /// May be empty, and may be no image.
    pub image: Text<'a>,
}

/// One entry of a channel: a bundle, and which others it may be installed over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entry<'a> {
    pub name: Text<'a>,
    pub replaces: Option<Text<'a>>,
    pub skips: Vec<Text<'a>>,
    pub skip_range: Option<Text<'a>>,
    /// The entry as the catalog has it.
    pub(crate) json: &'a str,
}

/// One entry of a package's deprecations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Deprecation<'a> {
    /// Schema of what is deprecated: `olm.package`, `olm.channel` or `olm.bundle`.
    pub schema: Text<'a>,
    /// Its name; empty for the package.
    pub name: Text<'a>,
    pub message: Text<'a>,
    /// The entry as the catalog has it.
    pub(crate) json: &'a str,
}

/// Something read from a map, key by key.
pub(crate) trait Fields<'de>: Default {
    const WHAT: &'static str;
    /// The keys it has; all others are passed over.
    const KEYS: &'static [&'static str];

    /// Reads the value of `KEYS[key]`.
    fn read<A: MapAccess<'de>>(&mut self, key: usize, map: &mut A) -> Result<(), A::Error>;
}

/// A map as `T`. A key that comes twice is refused: others could read the other one.
#[derive(Debug)]
pub(crate) struct Map<T>(pub(crate) T);

/// A list of maps, each as `T`. `null` is a list without items.
#[derive(Debug)]
pub(crate) struct Items<T>(pub(crate) Vec<T>);

impl<T> Default for Items<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de> Fields<'de> for Document<'de> {
    const WHAT: &'static str = "a document of a catalog";
    const KEYS: &'static [&'static str] = &[
        "schema",
        "package",
        "name",
        "image",
        "defaultChannel",
        "properties",
        "relatedImages",
        "entries",
    ];

    fn read<A: MapAccess<'de>>(&mut self, key: usize, map: &mut A) -> Result<(), A::Error> {
        match key {
            0 => self.schema = map.next_value()?,
            1 => self.package = map.next_value()?,
            2 => self.name = map.next_value()?,
            3 => self.image = map.next_value()?,
            4 => self.default_channel = map.next_value()?,
            5 => self.properties = map.next_value()?,
            6 => self.related_images = map.next_value()?,
            _ => self.entries = Some(map.next_value()?),
        }
        Ok(())
    }
}

impl<'de> Fields<'de> for Head<'de> {
    const WHAT: &'static str = "a document of a catalog";
    const KEYS: &'static [&'static str] = &["schema", "package", "name"];

    fn read<A: MapAccess<'de>>(&mut self, key: usize, map: &mut A) -> Result<(), A::Error> {
        match key {
            0 => self.schema = map.next_value()?,
            1 => self.package = map.next_value()?,
            // A schema of others may use this name for what it likes.
            _ => {
                let value: &RawValue = map.next_value()?;
                self.name = serde_json::from_str(value.get()).unwrap_or_default();
            }
        }
        Ok(())
    }
}

impl<'de> Fields<'de> for Property<'de> {
    const WHAT: &'static str = "a property";
    const KEYS: &'static [&'static str] = &["type", "value"];

    fn read<A: MapAccess<'de>>(&mut self, key: usize, map: &mut A) -> Result<(), A::Error> {
        match key {
            0 => self.kind = map.next_value()?,
            _ => self.value = Some(map.next_value()?),
        }
        Ok(())
    }
}

impl<'de> Fields<'de> for RelatedImage<'de> {
    const WHAT: &'static str = "a related image";
    const KEYS: &'static [&'static str] = &["name", "image"];

    fn read<A: MapAccess<'de>>(&mut self, key: usize, map: &mut A) -> Result<(), A::Error> {
        match key {
            0 => self.name = map.next_value()?,
            _ => self.image = map.next_value()?,
        }
        Ok(())
    }
}

impl<'de> Fields<'de> for Entry<'de> {
    const WHAT: &'static str = "an entry of a channel";
    const KEYS: &'static [&'static str] = &["name", "replaces", "skips", "skipRange"];

    fn read<A: MapAccess<'de>>(&mut self, key: usize, map: &mut A) -> Result<(), A::Error> {
        match key {
            0 => self.name = map.next_value()?,
            1 => self.replaces = map.next_value::<Text<'de>>()?.filled(),
            2 => self.skips = map.next_value::<Option<_>>()?.unwrap_or_default(),
            _ => self.skip_range = map.next_value::<Text<'de>>()?.filled(),
        }
        Ok(())
    }
}

impl<'de> Fields<'de> for Deprecation<'de> {
    const WHAT: &'static str = "a deprecation";
    const KEYS: &'static [&'static str] = &["reference", "message"];

    fn read<A: MapAccess<'de>>(&mut self, key: usize, map: &mut A) -> Result<(), A::Error> {
        match key {
            0 => {
                let Map(Reference { schema, name }) = map.next_value()?;
                (self.schema, self.name) = (schema, name);
            }
            _ => self.message = map.next_value()?,
        }
        Ok(())
    }
}

#[derive(Default)]
struct Reference<'a> {
    schema: Text<'a>,
    name: Text<'a>,
}

impl<'de> Fields<'de> for Reference<'de> {
    const WHAT: &'static str = "a reference";
    const KEYS: &'static [&'static str] = &["schema", "name"];

    fn read<A: MapAccess<'de>>(&mut self, key: usize, map: &mut A) -> Result<(), A::Error> {
        match key {
            0 => self.schema = map.next_value()?,
            _ => self.name = map.next_value()?,
        }
        Ok(())
    }
}

/// The entries of a channel, each with its own text.
pub(crate) fn entries(list: Option<&RawValue>) -> Result<Vec<Entry<'_>>, serde_json::Error> {
    items(list)?
        .into_iter()
        .map(|raw| {
            let Map(entry): Map<Entry<'_>> = serde_json::from_str(raw.get())?;
            Ok(Entry { json: raw.get(), ..entry })
        })
        .collect()
}

/// The entries of a package's deprecations, each with its own text.
pub(crate) fn deprecations(
    list: Option<&RawValue>,
) -> Result<Vec<Deprecation<'_>>, serde_json::Error> {
    items(list)?
        .into_iter()
        .map(|raw| {
            let Map(entry): Map<Deprecation<'_>> = serde_json::from_str(raw.get())?;
            Ok(Deprecation { json: raw.get(), ..entry })
        })
        .collect()
}

fn items(list: Option<&RawValue>) -> Result<Vec<&RawValue>, serde_json::Error> {
    let Some(list) = list else { return Ok(Vec::new()) };
    let items: Option<Vec<&RawValue>> = serde_json::from_str(list.get())?;
    let items = items.unwrap_or_default();
    if items.len() > MAX_ITEMS {
        return Err(too_many());
    }
    Ok(items)
}

fn too_many<E: Error>() -> E {
    E::custom(format_args!("more than {MAX_ITEMS} items in a list"))
}

impl<'de, T: Fields<'de>> Deserialize<'de> for Map<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys<T>(PhantomData<T>);
        impl<'de, T: Fields<'de>> Visitor<'de> for Keys<T> {
            type Value = Map<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}, which is a map", T::WHAT)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Map<T>, A::Error> {
                let (mut value, mut seen) = (T::default(), 0_u32);
                while let Some(Key(key, _)) = map.next_key::<Key<T>>()? {
                    let Some(key) = key else {
                        map.next_value::<IgnoredAny>()?;
                        continue;
                    };
                    if seen & 1 << key != 0 {
                        let name = T::KEYS[key];
                        return Err(A::Error::custom(format_args!("the key {name:?} comes twice")));
                    }
                    seen |= 1 << key;
                    value.read(key, &mut map)?;
                }
                Ok(Map(value))
            }
        }
        deserializer.deserialize_map(Keys(PhantomData))
    }
}

/// Which of the keys of `T` it is, if any.
struct Key<T>(Option<usize>, PhantomData<T>);

impl<'de, T: Fields<'de>> Deserialize<'de> for Key<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Word<T>(PhantomData<T>);
        impl<'de, T: Fields<'de>> Visitor<'de> for Word<T> {
            type Value = Key<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Key<T>, E> {
                let key = T::KEYS.iter().position(|key| key.eq_ignore_ascii_case(text));
                Ok(Key(key, PhantomData))
            }
        }
        deserializer.deserialize_str(Word(PhantomData))
    }
}

impl<'de, T: Fields<'de>> Deserialize<'de> for Items<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List<T>(PhantomData<T>);
        impl<'de, T: Fields<'de>> Visitor<'de> for List<T> {
            type Value = Items<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_unit<E: Error>(self) -> Result<Items<T>, E> {
                Ok(Items::default())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Items<T>, A::Error> {
                let mut items = Vec::new();
                while let Some(Map(item)) = list.next_element()? {
                    if items.len() == MAX_ITEMS {
                        return Err(too_many());
                    }
                    items.push(item);
                }
                Ok(Items(items))
            }
        }
        deserializer.deserialize_any(List(PhantomData))
    }
}
