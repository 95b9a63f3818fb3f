//! The data types that a NeuronCore stores, and the ones that only a codec reads.

/// A data type as it is stored in SBUF, PSUM or HBM.
///
/// The names are those of the public NKI reference. `float6_*`, `float8_e3m4` and the unpacked `float4_e2m1fn` (one
/// code a byte) have no `nki.language` name; codecs read and write them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[repr(u8)]
pub enum Dtype {
    /// One byte, 0 or 1.
    Bool,
    /// Unsigned 8-bit integer.
    Uint8,
    /// Signed 8-bit integer.
    Int8,
    /// Unsigned 16-bit integer.
    Uint16,
    /// Signed 16-bit integer.
    Int16,
    /// Unsigned 32-bit integer.
    Uint32,
    /// Signed 32-bit integer.
    Int32,
    /// IEEE binary32.
    Float32,
    /// 1/8/10 in a 32-bit word, the low 13 bits ignored by the array.
    Tfloat32,
    /// 1/8/7.
    Bfloat16,
    /// IEEE binary16.
    Float16,
    /// 1/5/2 with infinities.
    Float8E5m2,
    /// 1/4/3, IEEE-like, largest finite value 240.
    Float8E4m3,
    /// 1/4/3 of OCP, no infinities, largest finite value 448.
    Float8E4m3fn,
    /// 1/3/4, IEEE-like.
    Float8E3m4,
    /// A power of two, 2^(code - 127); 0xFF is NaN.
    Float8E8m0fnu,
    /// 1/2/3 of OCP, one code a byte.
    Float6E2m3fn,
    /// 1/3/2 of OCP, one code a byte.
    Float6E3m2fn,
    /// 1/2/1 of OCP, one code a byte.
    Float4E2m1fn,
    /// Four E5M2 codes in a 32-bit word, the first in the lowest byte.
    Float8E5m2X4,
    /// Four E4M3FN codes in a 32-bit word, the first in the lowest byte.
    Float8E4m3fnX4,
    /// Four E2M1 codes in a 16-bit word, the first in the lowest nibble.
    Float4E2m1fnX4,
}

impl Dtype {
    /// Every data type, in the order of its discriminant.
    pub const ALL: [Dtype; 22] = [
        Dtype::Bool,
        Dtype::Uint8,
        Dtype::Int8,
        Dtype::Uint16,
        Dtype::Int16,
        Dtype::Uint32,
        Dtype::Int32,
        Dtype::Float32,
        Dtype::Tfloat32,
        Dtype::Bfloat16,
        Dtype::Float16,
        Dtype::Float8E5m2,
        Dtype::Float8E4m3,
        Dtype::Float8E4m3fn,
        Dtype::Float8E3m4,
        Dtype::Float8E8m0fnu,
        Dtype::Float6E2m3fn,
        Dtype::Float6E3m2fn,
        Dtype::Float4E2m1fn,
        Dtype::Float8E5m2X4,
        Dtype::Float8E4m3fnX4,
        Dtype::Float4E2m1fnX4,
    ];

    /// The name in the public reference and in NumPy or `ml_dtypes`.
    pub const fn name(self) -> &'static str {
        match self {
            Dtype::Bool => "bool",
            Dtype::Uint8 => "uint8",
            Dtype::Int8 => "int8",
            Dtype::Uint16 => "uint16",
            Dtype::Int16 => "int16",
            Dtype::Uint32 => "uint32",
            Dtype::Int32 => "int32",
            Dtype::Float32 => "float32",
            Dtype::Tfloat32 => "tfloat32",
            Dtype::Bfloat16 => "bfloat16",
            Dtype::Float16 => "float16",
            Dtype::Float8E5m2 => "float8_e5m2",
            Dtype::Float8E4m3 => "float8_e4m3",
            Dtype::Float8E4m3fn => "float8_e4m3fn",
            Dtype::Float8E3m4 => "float8_e3m4",
            Dtype::Float8E8m0fnu => "float8_e8m0fnu",
            Dtype::Float6E2m3fn => "float6_e2m3fn",
            Dtype::Float6E3m2fn => "float6_e3m2fn",
            Dtype::Float4E2m1fn => "float4_e2m1fn",
            Dtype::Float8E5m2X4 => "float8_e5m2_x4",
            Dtype::Float8E4m3fnX4 => "float8_e4m3fn_x4",
            Dtype::Float4E2m1fnX4 => "float4_e2m1fn_x4",
        }
    }

    /// The data type of that name, if there is one.
    pub fn from_name(name: &str) -> Option<Dtype> {
        Dtype::ALL.into_iter().find(|dtype| dtype.name() == name)
    }

    /// The data type with that discriminant, if there is one.
    pub fn from_code(code: u8) -> Option<Dtype> {
        Dtype::ALL.get(usize::from(code)).copied()
    }

    /// Bytes that one element of storage occupies (a packed word is one element).
    pub const fn size_bytes(self) -> usize {
        match self {
            Dtype::Uint32
            | Dtype::Int32
            | Dtype::Float32
            | Dtype::Tfloat32
            | Dtype::Float8E5m2X4
            | Dtype::Float8E4m3fnX4 => 4,
            Dtype::Uint16 | Dtype::Int16 | Dtype::Bfloat16 | Dtype::Float16 | Dtype::Float4E2m1fnX4 => 2,
            _ => 1,
        }
    }

    /// Whether the element is an integer (or a bool, stored as one).
    pub const fn is_integer(self) -> bool {
        matches!(
            self,
            Dtype::Bool | Dtype::Uint8 | Dtype::Int8 | Dtype::Uint16 | Dtype::Int16 | Dtype::Uint32 | Dtype::Int32
        )
    }

    /// Whether the element is a word of four microscaled codes.
    pub const fn is_packed(self) -> bool {
        matches!(self, Dtype::Float8E5m2X4 | Dtype::Float8E4m3fnX4 | Dtype::Float4E2m1fnX4)
    }

    /// Whether the element is one floating-point number (packed words are not).
    pub const fn is_float(self) -> bool {
        !self.is_integer() && !self.is_packed()
    }

    /// The data type of the four codes of a packed word.
    pub const fn unpacked(self) -> Option<Dtype> {
        match self {
            Dtype::Float8E5m2X4 => Some(Dtype::Float8E5m2),
            Dtype::Float8E4m3fnX4 => Some(Dtype::Float8E4m3fn),
            Dtype::Float4E2m1fnX4 => Some(Dtype::Float4E2m1fn),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Dtype;

    #[test]
    fn names_and_codes_round_trip() {
        for (code, dtype) in Dtype::ALL.into_iter().enumerate() {
            assert_eq!(dtype as usize, code);
            assert_eq!(Dtype::from_name(dtype.name()), Some(dtype));
            assert_eq!(Dtype::from_code(code as u8), Some(dtype));
        }
    }
}
