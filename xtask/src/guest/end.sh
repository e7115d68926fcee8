# The end of a guest's init: it says that it is ready, and what it has made, and is then a shell on
# the serial line that the tests talk to.
stty -F /dev/ttyS0 -echo -onlcr
echo "@@ready $ready" > /dev/ttyS0
# Not the shell itself is process 1, the parent of every orphan: its read of a line ends when a
# child ends that it does not know, and it takes that for the end of all lines.
while :; do
    sh < /dev/ttyS0 > /dev/ttyS0 2>&1
done
