# Sockets come from the kernel's own table: no tool is needed, and a port with
# SO_REUSEPORT shows too.
rows() { # port, state: sets ROWS
	ROWS=$(cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | grep -c "$(printf '^ *[0-9]*: [0-9A-F]*:%04X [0-9A-F]*:[0-9A-F]* %s ' "$1" "$2")")
}
listens() {
	[ "$1" != 0 ] || return 1
	rows "$1" 0A
	[ "$ROWS" -gt 0 ]
}
holder() { # port: who listens, for people
	ho_hex=$(printf '%04X' "$1")
	ho_found=$(cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | sed -n "s/^ *[0-9]*: [0-9A-F]*:$ho_hex [0-9A-F]*:[0-9A-F]* 0A [^ ]* [^ ]* [^ ]* *[0-9]* *[0-9]* \([0-9]*\) .*/\1/p")
	for ho in /proc/[0-9]*; do
		ho_l=$(ls -l "$ho/fd" 2>/dev/null)
		for ho_i in $ho_found; do
			case $ho_l in *"socket:[$ho_i]"*) printf 'pid %s ' "${ho#/proc/}" ;; esac
		done
	done
}

# nvidia-smi may hang in the driver, where no signal reaches it: it is never
# waited for.
smi() { # arguments: the answer in FOLDER/smi; false where there is none
	command -v nvidia-smi >/dev/null 2>&1 || return 1
	rm -f "$D/smi.rc"
	(
		nvidia-smi "$@" --format=csv,noheader,nounits >"$D/smi" 2>/dev/null
		echo $? >"$D/smi.rc"
	) >/dev/null 2>&1 </dev/null &
	clock
	smi_end=$((UP + 15))
	until [ -s "$D/smi.rc" ]; do
		clock
		[ "$UP" -lt "$smi_end" ] || return 1
		nap
	done
	read -r smi_rc <"$D/smi.rc"
	[ "$smi_rc" = 0 ]
}
number() { case $1 in '' | *[!0-9]*) return 1 ;; esac; }

# gpu_before: notes for each GPU of the server how far its memory must fall, as
# "uuid limit before total how" in GPUS. With our pids among those that the
# tool lists (it shows the host's numbers inside a container) the limit is what
# the others hold; else it is nearly nothing, or stable and enough (how=guess).
gpu_before() {
	GPUS= GPU_SEEN=
	smi --query-gpu=uuid,memory.used,memory.total || return
	GPU_SEEN=1
	gb_all=$(sed 's/,//g' "$D/smi") gb_apps=
	smi --query-compute-apps=pid,used_memory,gpu_uuid && gb_apps=$(sed 's/,//g' "$D/smi")
	gb_ours=
	while read -r gb_p gb_m gb_u; do
		case $TREE in *" $gb_p:"*) number "$gb_m" && gb_ours="$gb_ours $gb_u=$gb_m" ;; esac
	done <<-END
		$gb_apps
	END
	while read -r gb_u gb_used gb_total; do
		number "$gb_used" && number "$gb_total" || continue
		if [ -n "$gb_ours" ]; then
			gb_sum=0
			for gb in $gb_ours; do
				[ "${gb%=*}" != "$gb_u" ] || gb_sum=$((gb_sum + ${gb#*=}))
			done
			[ $gb_sum -gt 0 ] || continue
			gb_limit=$((gb_used - gb_sum + 1024))
			[ $gb_limit -ge 1024 ] || gb_limit=1024
			GPUS="$GPUS$gb_u $gb_limit $gb_used $gb_total pids$NL"
			continue
		fi
		gb_limit=$((gb_total * 3 / 100))
		[ $gb_limit -ge 1024 ] || gb_limit=1024
		[ "$gb_used" -le $gb_limit ] || GPUS="$GPUS$gb_u $gb_limit $gb_used $gb_total guess$NL"
	done <<-END
		$gb_all
	END
}
# gpu_wait: until the memory of those GPUs is free; false where it stays held.
gpu_wait() {
	if [ -z "$GPU_SEEN" ]; then
		say "note -- GPU memory was not watched: nvidia-smi is absent or does not answer"
		return
	fi
	[ -n "$GPUS" ] || return 0
	clock
	gw_end=$((UP + GPUWAIT)) gw_last= gw_same=0 gw_said=
	while :; do
		if smi --query-gpu=uuid,memory.used; then
			gw_now=$(sed 's/,//g' "$D/smi") gw_held= gw_enough=1 gw_used=
			while read -r gw_u gw_limit gw_before gw_total gw_how; do
				[ -n "$gw_u" ] || continue
				gw_m=${gw_now#*"$gw_u "}
				gw_m=${gw_m%%"$NL"*}
				number "$gw_m" || gw_m=$gw_total
				gw_used="$gw_used,$gw_m"
				[ "$gw_m" -le "$gw_limit" ] || gw_held="$gw_held $gw_u"
				[ $((gw_total - gw_m)) -ge $((gw_total * NEEDPCT / 100)) ] && [ $gw_how = guess ] || gw_enough=0
			done <<-END
				$GPUS
			END
			gw_used=${gw_used#,}
			if [ -z "$gw_held" ]; then
				say "gpu-free used=$gw_used"
				return 0
			fi
			if [ "$gw_used" = "$gw_last" ]; then gw_same=$((gw_same + 1)); else gw_same=0; fi
			gw_last=$gw_used
			if [ $gw_same -ge 5 ] && [ $gw_enough = 1 ]; then
				say "gpu-free used=$gw_used -- other processes hold the rest"
				return 0
			fi
			[ -n "$gw_said" ] || say "gpu-wait used=$gw_used"
			gw_said=1
		fi
		alone
		clock
		[ "$UP" -lt "$gw_end" ] || return 1
		sleep 1
	done
}
gpu_holders() {
	smi --query-compute-apps=pid,used_memory && sed 's/^\([0-9]*\), *\(.*\)$/pid \1 holds \2 MiB;/' "$D/smi" | tr '\n' ' '
	ls -l /proc/[0-9]*/fd 2>/dev/null | sed -n -e '/^\/proc\//h' -e '/-> \/dev\/nvidia[0-9]/{g;s|/proc/\([0-9]*\)/fd:|\1|p;}' | sort -u | tr '\n' ' '
}
