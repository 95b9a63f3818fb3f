//! The field numbers of `perfetto_trace.proto` that are used, by message.

pub const TRACE_PACKET: u32 = 1;
pub mod packet {
    pub const CLOCK_SNAPSHOT: u32 = 6;
    pub const TIMESTAMP: u32 = 8;
    pub const SEQUENCE_ID: u32 = 10;
    pub const TRACK_EVENT: u32 = 11;
    pub const INTERNED_DATA: u32 = 12;
    pub const SEQUENCE_FLAGS: u32 = 13;
    pub const DEFAULTS: u32 = 59;
    pub const TRACK_DESCRIPTOR: u32 = 60;
    pub const FIRST_ON_SEQUENCE: u32 = 87;
}
pub mod clock_snapshot {
    pub const CLOCKS: u32 = 1;
    pub const PRIMARY_TRACE_CLOCK: u32 = 2;
    pub const CLOCK_ID: u32 = 1;
    pub const CLOCK_TIMESTAMP: u32 = 2;
}
pub mod defaults {
    pub const TIMESTAMP_CLOCK_ID: u32 = 58;
}
pub mod track {
    pub const UUID: u32 = 1;
    pub const NAME: u32 = 2;
    pub const PROCESS: u32 = 3;
    pub const THREAD: u32 = 4;
    pub const PARENT_UUID: u32 = 5;
    pub const COUNTER: u32 = 8;
    pub const CHILD_ORDERING: u32 = 11;
    pub const SIBLING_ORDER_RANK: u32 = 12;
    pub const THREAD_ORDERING: u32 = 20;
}
pub mod process {
    pub const PID: u32 = 1;
    pub const SORT_INDEX: u32 = 3;
    pub const NAME: u32 = 6;
}
pub mod thread {
    pub const PID: u32 = 1;
    pub const TID: u32 = 2;
    pub const SORT_INDEX: u32 = 3;
    pub const NAME: u32 = 5;
}
pub mod counter {
    pub const UNIT: u32 = 3;
    pub const UNIT_NAME: u32 = 6;
}
pub mod event {
    pub const CATEGORY_IIDS: u32 = 3;
    pub const DEBUG_ANNOTATIONS: u32 = 4;
    pub const TYPE: u32 = 9;
    pub const NAME_IID: u32 = 10;
    pub const TRACK_UUID: u32 = 11;
    pub const COUNTER_VALUE: u32 = 30;
    pub const SOURCE_LOCATION_IID: u32 = 34;
    pub const DOUBLE_COUNTER_VALUE: u32 = 44;
    pub const FLOW_IDS: u32 = 47;
    pub const TERMINATING_FLOW_IDS: u32 = 48;
}
pub mod annotation {
    pub const NAME_IID: u32 = 1;
    pub const UINT_VALUE: u32 = 3;
    pub const INT_VALUE: u32 = 4;
    pub const DOUBLE_VALUE: u32 = 5;
    pub const STRING_VALUE_IID: u32 = 17;
}
pub mod interned {
    pub const CATEGORIES: u32 = 1;
    pub const EVENT_NAMES: u32 = 2;
    pub const ANNOTATION_NAMES: u32 = 3;
    pub const SOURCE_LOCATIONS: u32 = 4;
    pub const ANNOTATION_STRINGS: u32 = 29;
    pub const IID: u32 = 1;
    pub const TEXT: u32 = 2;
    pub const SOURCE_FUNCTION: u32 = 3;
    pub const SOURCE_LINE: u32 = 4;
}
