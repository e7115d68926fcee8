#!/bin/bash
# Takes the place of `srnic` in the tests of `cargo xtask demo`. `file` moves the file by cp; the
# other subcommands say always the same. STAND_IN says what goes wrong.
set -eu
tool=$1
shift
host= json= verb=
if [ "$tool" = file ]; then
    verb=$1
    shift
fi
while [ $# -gt 0 ]; do
    case $1 in
        -d) device=$2 ;;
        --in | --out) file=$2 ;;
        --json) json=$2 ;;
        --port | -p) [ "$2" -gt 0 ] ;;
        -s | -n | -u | --cpu) [ "$2" -ge 0 ] ;;
        --verify | --spin) shift; continue ;;
        127.0.0.1) host=$1; shift; continue ;;
        *) echo "unknown option $1" >&2; exit 2 ;;
    esac
    shift 2
done

if [ "$STAND_IN" = hang ]; then
    echo $$ >>"$PIDS"
    exec sleep 1000
fi
if [ "$tool" != file ]; then
    if [ -n "$host" ]; then
        if [ "$STAND_IN" = wrong-data ]; then
            echo "byte 64 of the messages received is 0x00; it must be 0x2a" >&2
            exit 1
        fi
        printf '{"bw_avg_gbps": 12.5, "lat_us": {"p50": 1.5, "p99": 2.5}, "retransmits": 50, "drops": 50}' >"$json"
    fi
    exit 0
fi
medium=${device#*memif:}
medium=${medium%,role=*}
if [ "$verb" = send ]; then
    case $device in *memif:*,role=client) ;; *) exit 2 ;; esac
    if [ "$STAND_IN" = sender-fails ]; then
        echo "no such peer" >&2
        echo "usage: and so on"
        exit 3
    fi
    drops=0
    case $device in fault:loss=1%,seed=7:*) [ "$STAND_IN" = no-drops ] || drops=50 ;; esac
    cp "$file" "$medium.part"
    mv "$medium.part" "$medium.data"
    printf '{"bytes": %d, "seconds": 0.25, "gbps": 8.5, "packets_sent": 5000, "retransmitted": %d, "injected_drops": %d}' \
        "$(stat -c %s "$file")" "$drops" "$drops" >"$json"
else
    case $device in memif:*,role=server) ;; *) exit 2 ;; esac
    [ "$STAND_IN" != sender-fails ] || { echo $$ >>"$PIDS"; exec sleep 1000; }
    until [ -e "$medium.data" ]; do sleep 0.01; done
    cp "$medium.data" "$file"
    [ "$STAND_IN" != corrupt ] || printf '!' | dd of="$file" conv=notrunc bs=1 seek=100 status=none
    echo '{"bytes": 0, "seconds": 0.25, "packets_received": 0, "duplicates": 0, "out_of_order": 0}' >"$json"
fi
