# Runs a server as long as standard input is open, and obeys the words that come through it.
# Arguments: the server's directory, the signal that ends it, then its command line.
directory=$1 last=$2
shift 2
run() { "$@" </dev/null 2>&1 & pid=$!; }
stopped() { ! [ -r "/proc/$pid/status" ] || grep -q '^State:.[Tt]' "/proc/$pid/status"; }
run "$@"
echo "#watchdog $pid"
while read -r word; do
    case $word in
    START) run "$@" ;;
    STOP)
        kill -s STOP "$pid"
        until stopped; do :; done
        ;;
    CONT) kill -s CONT "$pid" ;;
    *)
        kill -s "$word" "$pid"
        wait "$pid"
        pid=
        ;;
    esac
    echo "#watchdog $pid"
done
if [ -n "$pid" ]; then
    kill -s "$last" "$pid"
    kill -s CONT "$pid"
    wait "$pid"
fi
rm -rf "$directory"
