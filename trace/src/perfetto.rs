//! The messages of Perfetto's trace format that are written (`protos/perfetto/trace`), by the numbers of their fields.
//!
//! A trace is a list of packets. One packet declares a track, every other one is an event on a track: a slice begins or
//! ends, something happens, a counter has a value. Names are sent once and referred to by number
//! ([`InternedData`]). Only what the writer uses is declared; a reader passes over what it does not know.
use prost::Message;

/// `TracePacket` (`trace_packet.proto`).
#[derive(Clone, PartialEq, Message)]
pub struct TracePacket {
    /// In ns of the default clock.
    #[prost(uint64, optional, tag = "8")]
    pub timestamp: Option<u64>,
    /// Which sequence of packets shares names.
    #[prost(uint32, optional, tag = "10")]
    pub trusted_packet_sequence_id: Option<u32>,
    /// An event.
    #[prost(message, optional, tag = "11")]
    pub track_event: Option<TrackEvent>,
    /// Names for the packets that follow.
    #[prost(message, optional, tag = "12")]
    pub interned_data: Option<InternedData>,
    /// See [`STATE_CLEARED`] and [`NEEDS_STATE`].
    #[prost(uint32, optional, tag = "13")]
    pub sequence_flags: Option<u32>,
    /// A track.
    #[prost(message, optional, tag = "60")]
    pub track_descriptor: Option<TrackDescriptor>,
}

/// `SEQ_INCREMENTAL_STATE_CLEARED`: names begin anew.
pub const STATE_CLEARED: u32 = 1;
/// `SEQ_NEEDS_INCREMENTAL_STATE`: the packet uses names that came before.
pub const NEEDS_STATE: u32 = 2;

/// `TrackEvent` (`track_event.proto`).
#[derive(Clone, PartialEq, Message)]
pub struct TrackEvent {
    /// What it is.
    #[prost(enumeration = "Type", optional, tag = "9")]
    pub r#type: Option<i32>,
    /// Interned name.
    #[prost(uint64, optional, tag = "10")]
    pub name_iid: Option<u64>,
    /// Where it is.
    #[prost(uint64, optional, tag = "11")]
    pub track_uuid: Option<u64>,
    /// The value, on a counter's track.
    #[prost(int64, optional, tag = "30")]
    pub counter_value: Option<i64>,
    /// Arrows that begin here.
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    pub flow_ids: Vec<u64>,
    /// Arrows that end here.
    #[prost(fixed64, repeated, packed = "false", tag = "48")]
    pub terminating_flow_ids: Vec<u64>,
}

/// `TrackEvent.Type`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, prost::Enumeration)]
#[repr(i32)]
pub enum Type {
    /// None of the others.
    Unspecified = 0,
    /// A slice begins.
    SliceBegin = 1,
    /// The innermost open slice of the track ends.
    SliceEnd = 2,
    /// Something happens.
    Instant = 3,
    /// A counter has a value.
    Counter = 4,
}

/// `InternedData` (`interned_data.proto`).
#[derive(Clone, PartialEq, Message)]
pub struct InternedData {
    /// Names.
    #[prost(message, repeated, tag = "2")]
    pub event_names: Vec<Interned>,
}

/// `EventName`.
#[derive(Clone, PartialEq, Message)]
pub struct Interned {
    /// Its number, above 0.
    #[prost(uint64, optional, tag = "1")]
    pub iid: Option<u64>,
    /// The text.
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
}

/// `TrackDescriptor` (`track_descriptor.proto`).
#[derive(Clone, PartialEq, Message)]
pub struct TrackDescriptor {
    /// Its number, above 0.
    #[prost(uint64, optional, tag = "1")]
    pub uuid: Option<u64>,
    /// What it is called.
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
    /// The track that it stands below.
    #[prost(uint64, optional, tag = "5")]
    pub parent_uuid: Option<u64>,
    /// It is a counter.
    #[prost(message, optional, tag = "8")]
    pub counter: Option<CounterDescriptor>,
    /// How the tracks below are ordered.
    #[prost(enumeration = "Ordering", optional, tag = "11")]
    pub child_ordering: Option<i32>,
    /// Where it stands among those with the same parent.
    #[prost(int32, optional, tag = "12")]
    pub sibling_order_rank: Option<i32>,
}

/// `TrackDescriptor.ChildTracksOrdering`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, prost::Enumeration)]
#[repr(i32)]
pub enum Ordering {
    /// As the reader likes.
    Unknown = 0,
    /// By name.
    Lexicographic = 1,
    /// By first event.
    Chronological = 2,
    /// By [`TrackDescriptor::sibling_order_rank`].
    Explicit = 3,
}

/// `CounterDescriptor` (`counter_descriptor.proto`).
#[derive(Clone, PartialEq, Message)]
pub struct CounterDescriptor {
    /// 2: a count.
    #[prost(int32, optional, tag = "3")]
    pub unit: Option<i32>,
}

/// `CounterDescriptor.Unit.UNIT_COUNT`.
pub const UNIT_COUNT: i32 = 2;

/// `Trace` (`trace.proto`), to read one back.
#[derive(Clone, PartialEq, Message)]
pub struct TraceFile {
    /// All packets.
    #[prost(message, repeated, tag = "1")]
    pub packet: Vec<TracePacket>,
}
