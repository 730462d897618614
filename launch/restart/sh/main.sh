lock || { busy; finish untouched busy; }
say "begin id=$ID op=$OP by=$WHO boot=$BOOTNOW pid=$P:$S"
[ -n "$SHARED" ] || [ "$OP" = end ] || say "note -- neither /dev/shm nor /tmp is shared by all logins: another login's restart would not be noticed"

# Before any signal: is it still what was confirmed, and can the new one start?
[ "$BOOT" = "$BOOTNOW" ] || refuse rebooted "the node was restarted since the plan was made"
if [ "$OP" != start ]; then
	lives "$P:$S" || refuse gone "process $P is no longer the confirmed one"
	[ -z "$SUM" ] || [ "$(cksum <"/proc/$P/cmdline")" = "$SUM" ] || refuse changed "process $P has another command line than the confirmed one"
	kill -0 "$P" 2>/dev/null || refuse permission "signals to process $P are not permitted"
	[ "$P" != 1 ] || refuse pid-1 "it is the first process of its container"
fi
case $OP in
restart | start)
	if [ "$OP" = start ] || [ "$NEWPORT" != "$PORT" ]; then
		listens "$NEWPORT" && refuse port-held "port $NEWPORT is taken: $(holder "$NEWPORT")"
	fi
	mkdir -p "${LOG%/*}" 2>/dev/null
	# A pipe by name would hold whoever opens it until somebody reads.
	[ ! -e "$LOG" ] || [ -f "$LOG" ] || refuse log "the log is no regular file"
	(: >>"$LOG") 2>/dev/null || refuse log "the log cannot be written"
	for path in "$LOG" "$D"; do
		free=$(df -Pk "$path" 2>/dev/null | { read -r a; read -r a b c d e; echo "$d"; })
		number "$free" && [ "$free" -lt 65536 ] && refuse disk "less than 64 MiB are free for the log or the restart's files"
	done
	if [ "$HOSTKB" -gt 0 ]; then
		while read -r a b c; do
			[ "$a" != MemAvailable: ] || [ "$b" -ge "$HOSTKB" ] || refuse memory "the host has too little memory for the cache of the new launch"
		done </proc/meminfo
	fi
	;;
esac
if [ "$MODE" = check ]; then
	for path in "$D"/path.*; do
		[ -f "$path" ] || continue
		IFS= read -r a <"$path"
		[ -e "$a" ] || say "refused why=path -- $a does not exist on the node"
	done
	if [ -f "$D/check.sh" ]; then
		if [ -z "$SAVED" ]; then keep "$P" saved; else cp -R "$BASE/$SAVED/saved" "$D/"; fi
		[ ! -d "$D/saved" ] || unfold saved check
		ask_parser
	fi
	exit 0
fi
printf '%s\n' "$ID" >"$BASE/current"

if [ -n "$SAVED" ]; then
	cp -R "$BASE/$SAVED/saved" "$BASE/$SAVED/identify" "$D/" 2>/dev/null ||
		refuse saved "the files of restart $SAVED are gone, and with them the launch's secrets"
elif [ "$OP" = restart ] || [ "$OP" = stop ]; then
	keep "$P" saved || refuse read "the launch of process $P cannot be read"
	MARK=$(tr '\000' '\n' <"$D/saved/environ" 2>/dev/null | sed -n 's/^RUNVIGIL_START=\([0-9a-z-]*\)$/\1/p')
	[ ! -f "$D/identify.sh" ] || $SH "$D/identify.sh" >"$D/identify" 2>/dev/null
	say "identify pid=$P:$S"
fi
if [ "$OP" = restart ] || [ "$OP" = start ]; then
	if [ -d "$D/saved" ]; then
		unfold saved new && cp "$D/new.env" "$D/old.env" && cp "$D/new.words" "$D/old.words" ||
			refuse disk "the launch cannot be written to $D: is its disk full?"
	fi
	if [ -n "$CLIENTID" ] && [ "$CLIENT" = restart ] && keep "${CLIENTID%%:*}" client.saved; then
		unfold client.saved client
	fi
fi

# Stop.
stop_server() {
	TREE=" $P:$S " ROOT=$P:$S
	[ "$OP" = end ] || grow
	if [ -n "$MARK" ] && [ "$OP" != end ]; then
		marked "$MARK"
		grow
	fi
	gpu_before
	st_tree=$TREE
	PARENT=0
	stat_of "$P" && PARENT=$st_ppid
	if [ "$CLIENT" != keep ] && [ -n "$CLIENTS" ]; then
		TREE=" $CLIENTS " ROOT=
		say "client-stop set=$(list $CLIENTS)"
		signal TERM $CLIENTS
		if ! wait_left "$TERMWAIT"; then
			signal KILL $LEFT
			wait_left "$KILLWAIT" || finish failed client-unkillable "$(stuck)"
		fi
		say client-gone
		TREE=$st_tree ROOT=$P:$S
	fi
	if [ "$DRAIN" -gt 0 ]; then
		say "drain for=$DRAIN"
		clock
		dr_end=$((UP + DRAIN))
		while rows "$PORT" 01 && [ "$ROWS" -gt 0 ] && [ "$UP" -lt $dr_end ] && lives "$ROOT"; do
			sleep 1
			clock
		done
		say "drained left=$ROWS"
	fi
	if [ "$ABORT" = 1 ] && [ "$CLIENT" != keep ]; then
		rows "$PORT" 01
		key_of "$P" "$D/key"
		ask /abort_request '{"abort_all": true, "rid": ""}' >/dev/null 2>&1
		say "abort rc=$? open=$ROWS"
		rm -f "$D/key"
	fi
	[ "$OP" = end ] || grow
	say "term set=$P:$S tree=$(list $TREE)"
	clock
	[ "$OP" = end ] || ENDED=$((UP * 100))
	end_tree "$TERMWAIT" || finish failed unkillable "cannot be ended: $(stuck)"
	say stopped
	[ "$OP" != end ] || finish down
	alone
	if listens "$PORT"; then
		say "port-wait port=$PORT"
		clock
		pw_end=$((UP + PORTWAIT))
		while listens "$PORT"; do
			clock
			alone
			[ "$UP" -lt $pw_end ] || finish failed port-held "port $PORT is still taken by another process: $(holder "$PORT")"
			nap
		done
	fi
	say "port-free port=$PORT"
	gpu_wait || finish failed gpu-held "GPU memory is still held though nothing of the server lives: free it on the host. $(gpu_holders)"
}
[ "$OP" = start ] || stop_server

# What earlier restarts left goes now: nothing of theirs lives any more.
for old in "$BASE"/[0-9]*; do
	[ "$old" != "$D" ] || continue
	o= t=
	read -r o 2>/dev/null <"$old/script"
	lives "${o:-0:0}" && continue
	# Whoever was told that we are busy may still be reading it.
	t=$(tail -n 1 "$old/journal" 2>/dev/null)
	case $t in *" end state=untouched"*) number "${t%% *}" && [ $(($(date +%s) - ${t%% *})) -lt 30 ] && continue ;; esac
	rm -rf "$old"
done
if [ "$OP" = stop ]; then
	# Whoever started it may start it again in a moment: then it is not down.
	clock
	st_end=$((UP + 3))
	while [ "$PARENT" -gt 1 ] && [ -d "/proc/$PARENT" ] && [ "$UP" -lt $st_end ]; do
		alone
		nap
		clock
	done
	finish down
fi

# Start. The port is looked at again: at most one server, whoever starts it.
alone
listens "$NEWPORT" && finish failed port-held "port $NEWPORT was taken meanwhile, perhaps the server is supervised and came back: $(holder "$NEWPORT")"
launch new || finish failed start "the new server could not be started"
unlock
if watch new; then finish running; fi
if [ "$BACK" = 0 ]; then finish failed exited "the new server ended before it served"; fi
current && lock || finish failed superseded "another restart has taken over"
current || finish failed superseded "another restart has taken over"
say "back -- the last good launch is started again"
gpu_wait || finish failed gpu-held "GPU memory is still held: free it on the host. $(gpu_holders)"
listens "$NEWPORT" && finish failed port-held "port $NEWPORT was taken meanwhile: $(holder "$NEWPORT")"
alone
launch old || finish failed start "the last good launch could not be started"
BACK=0
unlock
if watch old; then finish running back; fi
finish failed exited "the last good launch ended before it served"
