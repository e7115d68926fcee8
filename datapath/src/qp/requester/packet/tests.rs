use super::opcode_at;
use crate::queue::SendOpcode;
use wire::{Kind, Opcode};

#[test]
fn the_opcode_of_each_packet() {
    // Of a message of one packet; first, middle and last of a longer one (protocol.md 1.3).
    let table = [
        (
            SendOpcode::Send,
            [Opcode::RcSendOnly, Opcode::RcSendFirst, Opcode::RcSendMiddle, Opcode::RcSendLast],
        ),
        (
            SendOpcode::SendWithImm,
            [Opcode::RcSendOnlyImm, Opcode::RcSendFirst, Opcode::RcSendMiddle, Opcode::RcSendLastImm],
        ),
        (
            SendOpcode::Write,
            [Opcode::RcWriteOnly, Opcode::RcWriteFirst, Opcode::RcWriteMiddle, Opcode::RcWriteLast],
        ),
        (
            SendOpcode::WriteWithImm,
            [Opcode::RcWriteOnlyImm, Opcode::RcWriteFirst, Opcode::RcWriteMiddle, Opcode::RcWriteLastImm],
        ),
    ];
    for (request, [only, first, middle, last]) in table {
        assert_eq!(opcode_at(request, 0, 1), only);
        for packets in 2..6 {
            assert_eq!(opcode_at(request, 0, packets), first);
            for index in 1..packets - 1 {
                assert_eq!(opcode_at(request, index, packets), middle);
            }
            assert_eq!(opcode_at(request, packets - 1, packets), last);
        }
        // 2 GiB at a path MTU of 256.
        assert_eq!(opcode_at(request, (1 << 23) - 2, 1 << 23), middle);
        assert_eq!(opcode_at(request, (1 << 23) - 1, 1 << 23), last);
    }
}

#[test]
fn the_opcodes_say_what_the_request_says() {
    let requests = [SendOpcode::Send, SendOpcode::SendWithImm, SendOpcode::Write, SendOpcode::WriteWithImm];
    for request in requests {
        for packets in 1..5 {
            for index in 0..packets {
                let opcode = opcode_at(request, index, packets);
                let end = index + 1 == packets;
                assert_eq!((opcode.is_start(), opcode.is_end()), (index == 0, end));
                assert_eq!(opcode.kind() == Kind::Write, request.is_write());
                assert_eq!(opcode.has_imm(), request.has_imm() && end);
                assert_eq!(
                    opcode.consumes_rwqe(),
                    request.consumes_receive() && (end || !request.is_write())
                );
            }
        }
    }
}
