//! Which algorithms a simulation runs: the registered ones, or a test's own.

use incast_protocols::application::{AnyApplication, Application, ApplicationChoice, ApplicationContext};
use incast_protocols::echo::{AnyEcho, Echo, EchoChoice, EchoContext};
use incast_protocols::receiver::{AnyReceiver, NicContext, Receiver, ReceiverChoice};
use incast_protocols::sender::{AnySender, Sender, SenderChoice, SenderContext};
use incast_protocols::switch::buffer::{AnyBuffer, Buffer, BufferChoice, BufferContext};
use incast_protocols::switch::marker::{AnyMarker, Marker, MarkerChoice, MarkerContext};

/// One type per place, and how a plan's choice becomes one.
///
/// The simulator is generic over this, so that every call of an algorithm is static. [`Registered`]
/// holds all algorithms of the registry in enums; an experiment can put in a type of its own.
#[expect(missing_docs, reason = "each item is the place it is named after")]
pub trait Parts {
    type Buffer: Buffer;
    type Marker: Marker;
    type Sender: Sender;
    type Echo: Echo;
    type Receiver: Receiver;
    type Application: Application;

    fn buffer(&self, choice: &BufferChoice, context: &BufferContext) -> Self::Buffer;
    fn marker(&self, choice: &MarkerChoice, context: &MarkerContext) -> Self::Marker;
    fn sender(&self, choice: &SenderChoice, context: &SenderContext) -> Self::Sender;
    fn echo(&self, choice: &EchoChoice, context: &EchoContext) -> Self::Echo;
    fn receiver(&self, choice: &ReceiverChoice, context: &NicContext) -> Self::Receiver;
    fn application(&self, choice: &ApplicationChoice, context: &ApplicationContext) -> Self::Application;
}

/// Every registered algorithm, as the plan chooses.
#[derive(Clone, Copy, Debug, Default)]
pub struct Registered;

impl Parts for Registered {
    type Buffer = AnyBuffer;
    type Marker = AnyMarker;
    type Sender = AnySender;
    type Echo = AnyEcho;
    type Receiver = AnyReceiver;
    type Application = AnyApplication;

    fn buffer(&self, choice: &BufferChoice, context: &BufferContext) -> AnyBuffer {
        choice.build(context)
    }

    fn marker(&self, choice: &MarkerChoice, context: &MarkerContext) -> AnyMarker {
        choice.build(context)
    }

    fn sender(&self, choice: &SenderChoice, context: &SenderContext) -> AnySender {
        choice.build(context)
    }

    fn echo(&self, choice: &EchoChoice, context: &EchoContext) -> AnyEcho {
        choice.build(context)
    }

    fn receiver(&self, choice: &ReceiverChoice, context: &NicContext) -> AnyReceiver {
        choice.build(context)
    }

    fn application(&self, choice: &ApplicationChoice, context: &ApplicationContext) -> AnyApplication {
        choice.build(context)
    }
}
