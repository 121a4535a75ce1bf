//! Names that most tests of this program need.

pub(crate) use std::collections::BTreeMap;
pub(crate) use std::ops::ControlFlow;
pub(crate) use std::sync::Arc;
pub(crate) use std::task::{Context, Poll, Waker};
pub(crate) use std::time::Duration;

pub(crate) use ensile_base::clock::Clock;
pub(crate) use ensile_base::random::Random;
pub(crate) use ensile_durability::DurabilityError;
pub(crate) use ensile_engine::checkpoint::{CheckpointReport, Schedule, Strategy};
pub(crate) use ensile_engine::receipt::Epoch;
pub(crate) use ensile_engine::*;
pub(crate) use ensile_sim::SimDisk;

pub(crate) use crate::cause;
pub(crate) use crate::driven::Driven;
