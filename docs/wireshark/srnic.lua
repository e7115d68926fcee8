-- Wireshark post-dissector for the extension words of the SRNIC dialect (protocol.md 2.2).
--
--   wireshark -X lua_script:docs/wireshark/srnic.lua
--   tshark -X lua_script:docs/wireshark/srnic.lua -r capture.pcap -O srnic
--
-- For another UDP port than 4791 add: -o infiniband.rroce.port:4793
--
-- Wireshark's own InfiniBand dissector names the opcode and reads the standard headers where the
-- standard puts them. This script adds what it cannot know: META, SSNW, RDW, ACKX and SACKB of each
-- packet whose BTH.TVer is 9, and the RETH and ImmDt of every packet, for WRITE Middle and Last
-- have a RETH in this dialect only. (Of a WRITE Last with Immediate, infiniband.immdt is wrong: it
-- shows the first four bytes of the RETH. Use srnic.imm.)

local srnic = Proto("srnic", "SRNIC RDMA extension words")

local TVER = 9
local BTH_LEN = 12
local UDP_LEN = 8
local ICRC_LEN = 4

local f = {
    reth = ProtoField.bytes("srnic.reth", "RETH"),
    reth_va = ProtoField.uint64("srnic.reth.va", "Virtual address", base.HEX),
    reth_rkey = ProtoField.uint32("srnic.reth.rkey", "R_Key", base.HEX),
    reth_dmalen = ProtoField.uint32("srnic.reth.dmalen", "DMA length from this packet on", base.DEC),
    imm = ProtoField.uint32("srnic.imm", "Immediate", base.HEX),
    meta = ProtoField.bytes("srnic.meta", "META"),
    meta_msn = ProtoField.uint16("srnic.meta.msn", "MSN", base.DEC),
    meta_offset = ProtoField.uint16("srnic.meta.psn_offset", "PSN offset", base.DEC),
    ssnw = ProtoField.bytes("srnic.ssnw", "SSNW"),
    ssnw_hi = ProtoField.uint8("srnic.ssnw.off_hi", "PSN offset, upper bits", base.DEC),
    ssnw_ssn = ProtoField.uint24("srnic.ssnw.ssn", "SSN", base.DEC),
    ssnw_rslot = ProtoField.uint24("srnic.ssnw.rslot", "Responder slot", base.DEC),
    rdw = ProtoField.bytes("srnic.rdw", "RDW"),
    rdw_rslot = ProtoField.uint8("srnic.rdw.rslot", "Responder slot", base.DEC),
    rdw_rpsn = ProtoField.uint24("srnic.rdw.rpsn_start", "First response PSN", base.DEC),
    ackx = ProtoField.bytes("srnic.ackx", "ACKX"),
    ackx_flags = ProtoField.uint8("srnic.ackx.flags", "Flags", base.HEX),
    flag_response = ProtoField.bool("srnic.ackx.flags.response_stream", "Response stream", 8, nil, 0x01),
    flag_sack = ProtoField.bool("srnic.ackx.flags.sack_valid", "SACK valid", 8, nil, 0x02),
    flag_bitmap = ProtoField.bool("srnic.ackx.flags.bitmap", "Bitmap follows", 8, nil, 0x04),
    flag_meta = ProtoField.bool("srnic.ackx.flags.meta_valid", "META echo valid", 8, nil, 0x08),
    flag_duplicate = ProtoField.bool("srnic.ackx.flags.duplicate", "Trigger was a duplicate", 8, nil, 0x10),
    flag_backward = ProtoField.bool("srnic.ackx.flags.backward", "Bitmap looks back from SACK_PSN", 8, nil, 0x20),
    flag_host = ProtoField.bool("srnic.ackx.flags.host", "Marked by the host, which falls behind", 8, nil, 0x40),
    ackx_sack = ProtoField.uint24("srnic.ackx.sack_psn", "SACK PSN", base.DEC),
    ackx_ce = ProtoField.uint16("srnic.ackx.ce_cnt", "CE count", base.DEC),
    ackx_delay = ProtoField.uint16("srnic.ackx.ack_delay", "ACK delay", base.UNIT_STRING, { " x 64 ns" }),
    sackb = ProtoField.uint64("srnic.sackb", "SACK bitmap", base.HEX),
    icrc = ProtoField.uint32("srnic.icrc", "Invariant CRC (not verified)", base.HEX),
    payload_len = ProtoField.uint32("srnic.payload_len", "Payload length", base.DEC),
}
srnic.fields = f

local short = ProtoExpert.new("srnic.short", "Packet ends inside its headers", expert.group.MALFORMED, expert.severity.ERROR)
local unknown = ProtoExpert.new("srnic.unknown", "No such opcode in the SRNIC dialect", expert.group.PROTOCOL, expert.severity.ERROR)
srnic.experts = { short, unknown }

local get_bth = Field.new("infiniband.bth")
local get_tver = Field.new("infiniband.bth.tver")
local get_udp_len = Field.new("udp.length")

-- Each header: its length, and how it is shown. `p` is {opcode, tree, info}; `info` goes to the
-- Info column.

local RETH = { len = 16, show = function(p, range)
    local tree = p.tree:add(f.reth, range)
    tree:add(f.reth_va, range(0, 8))
    tree:add(f.reth_rkey, range(8, 4))
    tree:add(f.reth_dmalen, range(12, 4))
end }

local IMM = { len = 4, show = function(p, range)
    p.tree:add(f.imm, range)
end }

local META = { len = 4, show = function(p, range)
    local tree = p.tree:add(f.meta, range)
    tree:add(f.meta_msn, range(0, 2))
    tree:add(f.meta_offset, range(2, 2))
    p.info = string.format("%s MSN=%d+%d", p.info, range(0, 2):uint(), range(2, 2):uint())
end }

-- READ response First to Only, and the Atomic Acknowledge, carry the responder slot where SENDs
-- carry the SSN.
local function is_response(opcode)
    return opcode >= 0x0d and opcode <= 0x10 or opcode == 0x12
end

local SSNW = { len = 4, show = function(p, range)
    local tree = p.tree:add(f.ssnw, range)
    local number, name = f.ssnw_ssn, "SSN"
    if is_response(p.opcode) then
        number, name = f.ssnw_rslot, "RSLOT"
    end
    tree:add(f.ssnw_hi, range(0, 1))
    tree:add(number, range(1, 3))
    p.info = string.format("%s %s=%d", p.info, name, range(1, 3):uint())
end }

local RDW = { len = 4, show = function(p, range)
    local tree = p.tree:add(f.rdw, range)
    tree:add(f.rdw_rslot, range(0, 1))
    tree:add(f.rdw_rpsn, range(1, 3))
    p.info = string.format("%s RSLOT=%d RPSN=%d", p.info, range(0, 1):uint(), range(1, 3):uint())
end }

local SACKB = { len = 8, show = function(p, range)
    p.tree:add(f.sackb, range)
end }

local BITMAP = 0x04
local SACK_VALID = 0x02

local ACKX = { len = 8, show = function(p, range)
    local tree = p.tree:add(f.ackx, range)
    local flags = range(0, 1)
    local subtree = tree:add(f.ackx_flags, flags)
    subtree:add(f.flag_response, flags)
    subtree:add(f.flag_sack, flags)
    subtree:add(f.flag_bitmap, flags)
    subtree:add(f.flag_meta, flags)
    subtree:add(f.flag_duplicate, flags)
    subtree:add(f.flag_backward, flags)
    subtree:add(f.flag_host, flags)
    tree:add(f.ackx_sack, range(1, 3))
    tree:add(f.ackx_ce, range(4, 2))
    tree:add(f.ackx_delay, range(6, 2)):append_text(string.format(" (%d ns)", range(6, 2):uint() * 64))
    if bit.band(flags:uint(), SACK_VALID) ~= 0 then
        p.info = string.format("%s SACK=%d", p.info, range(1, 3):uint())
    end
    if bit.band(flags:uint(), BITMAP) ~= 0 then
        return SACKB
    end
end }

-- Standard headers at their standard places: Wireshark's own dissector shows them.
local function standard(len)
    return { len = len, show = function() end }
end
local AETH, IETH, ATOMIC_ETH, ATOMIC_ACK = standard(4), standard(4), standard(28), standard(8)

local HEADERS = {
    [0x00] = { META, SSNW },                   -- SEND First
    [0x01] = { META, SSNW },                   -- SEND Middle
    [0x02] = { META, SSNW },                   -- SEND Last
    [0x03] = { IMM, META, SSNW },              -- SEND Last with Immediate
    [0x04] = { META, SSNW },                   -- SEND Only
    [0x05] = { IMM, META, SSNW },              -- SEND Only with Immediate
    [0x06] = { RETH, META },                   -- WRITE First
    [0x07] = { RETH, META },                   -- WRITE Middle
    [0x08] = { RETH, META },                   -- WRITE Last
    [0x09] = { RETH, IMM, META, SSNW },        -- WRITE Last with Immediate
    [0x0a] = { RETH, META },                   -- WRITE Only
    [0x0b] = { RETH, IMM, META, SSNW },        -- WRITE Only with Immediate
    [0x0c] = { RETH, META, RDW },              -- READ Request
    [0x0d] = { AETH, META, SSNW },             -- READ Response First
    [0x0e] = { META, SSNW },                   -- READ Response Middle
    [0x0f] = { AETH, META, SSNW },             -- READ Response Last
    [0x10] = { AETH, META, SSNW },             -- READ Response Only
    [0x11] = { AETH, META, ACKX },             -- Acknowledge
    [0x12] = { AETH, ATOMIC_ACK, META, SSNW }, -- Atomic Acknowledge
    [0x13] = { ATOMIC_ETH, META, RDW },        -- Compare-and-Swap
    [0x14] = { ATOMIC_ETH, META, RDW },        -- Fetch-and-Add
    [0x16] = { IETH, META, SSNW },             -- SEND Last with Invalidate
    [0x17] = { IETH, META, SSNW },             -- SEND Only with Invalidate
}

-- Where the payload ends and where the ICRC begins, from the UDP length if there is one. The pad is
-- in between.
local function ends(tvb, bth)
    local udp_len = get_udp_len()
    local transport_len = udp_len and udp_len.value - UDP_LEN or tvb:len() - bth
    local pad = bit.rshift(bit.band(tvb(bth + 1, 1):uint(), 0x30), 4)
    local icrc = math.min(bth + transport_len, tvb:len()) - ICRC_LEN
    return icrc - pad, icrc
end

function srnic.dissector(tvb, pinfo, root)
    local tver, bth = get_tver(), get_bth()
    if not tver or tver.value ~= TVER then
        return
    end
    local start = bth.offset
    local p = { opcode = tvb(start, 1):uint(), info = "" }
    local stop, icrc = ends(tvb, start)
    local headers = HEADERS[p.opcode]
    p.tree = root:add(srnic, tvb(start + BTH_LEN, math.max(stop - start - BTH_LEN, 0)))
    if not headers then
        p.tree:add_proto_expert_info(unknown)
        return
    end

    local at = start + BTH_LEN
    local function show(header)
        if at + header.len > stop then
            p.tree:add_proto_expert_info(short)
            return false
        end
        local follower = header.show(p, tvb(at, header.len))
        at = at + header.len
        return not follower or show(follower)
    end
    for _, header in ipairs(headers) do
        if not show(header) then
            return
        end
    end

    p.tree:set_len(at - start - BTH_LEN)
    p.tree:add(f.payload_len, stop - at):set_generated()
    p.tree:add(f.icrc, tvb(icrc, ICRC_LEN))
    pinfo.cols.protocol:set("SRNIC")
    pinfo.cols.info:append(p.info)
end

register_postdissector(srnic)
