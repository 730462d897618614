# keep PID FOLDER: saves a process's launch; unfold FOLDER NAME makes of it
# NAME.env and NAME.words, which give the new one what must not leave the node.
keep() {
	mkdir -p "$D/$2" && cat "/proc/$1/cmdline" >"$D/$2/cmdline" || return 1
	cat "/proc/$1/environ" >"$D/$2/environ" 2>/dev/null
	return 0
}
unfold() {
	tr '\000\n' '\n\001' <"$D/$1/environ" 2>/dev/null | sed -n \
		-e '/^PWD=/d' -e '/^OLDPWD=/d' -e '/^SHLVL=/d' -e '/^_=/d' -e '/^TERM=/d' -e '/^TMUX=/d' -e '/^TMUX_PANE=/d' \
		-e '/^STY=/d' -e '/^WINDOW=/d' -e '/^DISPLAY=/d' -e '/^LS_COLORS=/d' -e '/^SSH_/d' \
		-e '/^U\{0,1\}ID=/d' -e '/^EUID=/d' -e '/^PPID=/d' -e '/^SHELLOPTS=/d' -e '/^BASHOPTS=/d' -e '/^RUNVIGIL_START=/d' \
		-e "s/'/'\\\\''/g" -e "s/^\([A-Za-z_][A-Za-z0-9_]*\)=\(.*\)\$/export \1='\2'/p" | tr '\001' '\n' >"$D/$2.env"
	uf_n=0
	tr '\000\n' '\n\001' <"$D/$1/cmdline" | sed -e "s/'/'\\\\''/g" -e "s/^/'/" -e "s/\$/'/" | while IFS= read -r uf; do
		printf 'rv_word_%d=%s\n' $uf_n "$uf"
		uf_n=$((uf_n + 1))
	done | tr '\001' '\n' >"$D/$2.words"
	# Half of an environment would start another server: a full disk is noticed here.
	for uf in env words; do
		# An environment that the process overwrote stays empty: then the login's serves.
		[ $uf = words ] || [ -n "$(tr -d '\000' 2>/dev/null <"$D/$1/environ" | head -c 1)" ] || continue
		echo '# end' >>"$D/$2.$uf" && [ "$(tail -n 1 "$D/$2.$uf")" = '# end' ] || return 1
	done 2>/dev/null
	[ "$(tr '\000\n' '\n\001' <"$D/$1/cmdline" | grep -c '')" = "$(grep -c '^rv_word_[0-9]*=' "$D/$2.words")" ]
}

# ask_parser: has the engine's own parser read the new arguments, with --help
# behind them and no GPU in sight.
ask_parser() {
	(become check "$D/check.out"; echo $? >"$D/rc.check") >/dev/null 2>&1 </dev/null &
	clock
	ap_end=$((UP + 20))
	until [ -s "$D/rc.check" ]; do
		clock
		if [ "$UP" -ge "$ap_end" ]; then
			read -r ROOT <"$D/pid.check" && TREE=" $ROOT " && grow && signal KILL $TREE
			say "note -- the engine's own parser did not answer in 20 s; the arguments were not checked by it"
			return
		fi
		nap
	done
	read -r ap <"$D/rc.check"
	case $ap in
	0) ;;
	2) say "refused why=parser -- $(tail -n 1 "$D/check.out" | cut -c 1-300)" ;;
	126 | 127) say "refused why=command -- $(tail -n 1 "$D/check.out" | cut -c 1-300)" ;;
	*) say "note -- the engine's own parser ended with $ap; the arguments were not checked by it" ;;
	esac
}

# ask PATH BODY: one request to the old server from here, with its key read
# from a file.
ask() {
	as_url=http://127.0.0.1:$PORT$1
	if command -v curl >/dev/null 2>&1; then
		curl -s -o /dev/null -m 10 -H 'Content-Type: application/json' ${AUTH:+-H "@$AUTH"} -d "$2" "$as_url"
	elif command -v python3 >/dev/null 2>&1; then
		python3 - "$as_url" "$2" "${AUTH:-}" <<-'END'
			import sys, urllib.request
			head = {"Content-Type": "application/json"}
			if sys.argv[3]:
			    name, _, value = open(sys.argv[3]).read().strip().partition(": ")
			    head[name] = value
			urllib.request.urlopen(urllib.request.Request(sys.argv[1], sys.argv[2].encode(), head), timeout=10)
		END
	else
		return 127
	fi
}

# became PID:START: waits until our shell has turned into the program, for then it
# has read the files that hold its secrets.
became() {
	clock
	be_end=$((UP + 10))
	while lives "$1"; do
		case $(tr '\000' ' ' 2>/dev/null <"/proc/${1%%:*}/cmdline") in
		*"$D/restart.sh exec "* | *"setsid "*) ;;
		*) return ;;
		esac
		clock
		[ "$UP" -lt "$be_end" ] || return
		nap
	done
}
launch() { # NAME
	la_size=0
	[ ! -f "$LOG" ] || la_size=$(ls -ln "$LOG" | { read -r a b c d e f; echo "$e"; })
	printf '\n%s%s ====\n' "$SEPARATOR" "$ID" >>"$LOG" || return 1
	rm -f "$D/pid.$1" "$D/rc.$1" "$D/lost"
	say "start offset=$la_size launch=$1 -- $LOG"
	$SETSID $SH "$D/restart.sh" wrap "$D" "$1" "$LOG" </dev/null >/dev/null 2>&1 &
	clock
	la_end=$((UP + 20))
	until [ -s "$D/pid.$1" ]; do
		clock
		[ "$UP" -lt "$la_end" ] || return 1
		nap
	done
	read -r NEW <"$D/pid.$1"
	became "$NEW"
	ROOT=$NEW TREE=" $NEW "
	say "started pid=$NEW port=$NEWPORT launch=$1"
	[ ! -s "$D/lost" ] || say "note -- limits that this login cannot give: $(tr '\n' ';' <"$D/lost")"
}
start_client() {
	[ "$CLIENT" = restart ] && [ -f "$D/client.sh" ] || return 0
	rm -f "$D/pid.client"
	(become client "$CLIENTLOG") >/dev/null 2>&1 </dev/null &
	clock
	sc_end=$((UP + 10))
	until [ -s "$D/pid.client" ]; do
		clock
		[ "$UP" -lt "$sc_end" ] || { say "note -- the client could not be started"; return; }
		nap
	done
	read -r sc <"$D/pid.client"
	became "$sc"
	say "client pid=$sc"
}
# watch NAME: until the new server has opened its port or has ended. The lock is
# free meanwhile, so that a start that goes wrong can be replaced at any time.
watch() {
	clock
	wa_grow=0 wa_until= wa_name=$1
	while :; do
		current || finish running superseded "another restart has taken over"
		if [ -s "$D/rc.$wa_name" ]; then
			grow
			marked "$ID-$wa_name"
			grow
			left
			if [ -n "$LEFT" ]; then
				say "kill set=$(list $LEFT) -- left behind by the server that ended"
				signal KILL $LEFT
				wait_left "$KILLWAIT"
			fi
			return 1
		fi
		clock
		if [ "$UP" -gt "$wa_grow" ]; then
			wa_grow=$((UP + 2))
			grow
			if again; then
				say "kill set=$(list $TREE) -- $AGAIN"
				end_tree 5
				alone
			fi
		fi
		if [ -z "$wa_until" ] && { [ "$NEWPORT" = 0 ] || listens "$NEWPORT"; }; then
			[ "$NEWPORT" = 0 ] || say "listening port=$NEWPORT"
			start_client
			wa_until=$UP
			[ "$BACK" = 0 ] || wa_until=$((UP + GRACE))
		fi
		[ -z "$wa_until" ] || [ "$UP" -lt "$wa_until" ] || return 0
		nap
	done
}
