# What every long-lived shell of the probe runs first. The client puts
# N=<nonce> and R=<1 for a relay> in front, and sends nothing until READY.

# Ends what this shell started when its input ends. A process group is only
# swept when this shell leads it; otherwise the group is somebody else's.
guard() {
	trap 'exit 0' HUP INT PIPE
	L=
	read -r L </proc/$$/stat
	set -- ${L##*) }
	if [ "$3" = "$$" ]; then
		trap 'trap - EXIT TERM; kill 0' EXIT
	else
		trap 'kill -9 $Jg $Jh $Q' EXIT
	fi
}

# Where a program is: t, empty where it is not found. Its directories besides
# PATH follow its name. Built-ins only: a fork takes longer than all of it.
at() {
	n=$1 t=
	shift
	IFS=:
	for d in $PATH "$@"; do
		[ -z "$t" ] && [ -f "$d/$n" ] && [ -x "$d/$n" ] && t=$d/$n
	done
	unset IFS
}

# Where nvidia-smi is: G.
smi() {
	at nvidia-smi /usr/bin /usr/local/nvidia/bin /usr/local/cuda/bin /opt/bin /run/nvidia/driver/usr/bin /usr/lib/wsl/lib
	G=$t
}

# Separates the parts of one answer.
s() { printf '\n@%s S\n' "$N"; }

loop() {
	guard
	printf '\n@%s READY %s %s\n' "$N" "$$" "$PPID"
	while IFS= read -r L; do
		I=${L%% *}
		eval "${L#* }" </dev/null
		printf '\n@%s E %s %s\n' "$N" "$I" "$?"
	done
	exit 0
}

# With a relay a worker behind a FIFO does the work and this process becomes
# cat, so that it ends with its input even while the worker is blocked.
main() {
	K= B= V= W= A= H= Jg= Jh= Q=
	LC_ALL=C
	PATH=$PATH:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin
	export LC_ALL PATH
	exec 2>/dev/null
	if [ "$R" = 1 ] && d=$(mktemp -d) && mkfifo "$d/f"; then
		loop <"$d/f" &
		exec 3>"$d/f"
		rm -rf "$d"
		exec cat >&3
	fi
	loop
}
