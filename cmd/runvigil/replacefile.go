package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// lockFile holds a file, which is replaced as a whole and need not be there yet,
// against others of us who edit it. The lock lies beside it, and goes when we do.
func lockFile(file string) (unlock func(), err error) {
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return nil, err
	}
	name := filepath.Join(filepath.Dir(file), "."+filepath.Base(file)+".lock")
	for {
		lock, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
			return nil, errors.Join(err, lock.Close())
		}
		// Whoever held it before took the file away: then this is no lock any more.
		mine, err := lock.Stat()
		now, gone := os.Stat(name)
		if err == nil && gone == nil && os.SameFile(mine, now) {
			return func() { _ = errors.Join(os.Remove(name), lock.Close()) }, nil
		}
		if err := errors.Join(err, lock.Close()); err != nil {
			return nil, err
		}
	}
}

// replaceFile writes a file as a whole: beside it, on the disk, and then in its
// place. Where that fails the file is as it was, and nothing is left beside it.
// A link stays a link, and the mode of an existing file is kept. A new file is
// readable by its owner only, and its folder is made.
func replaceFile(file string, data []byte) error {
	mode := fs.FileMode(0o600)
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real
	}
	if info, err := os.Stat(file); err == nil {
		mode = info.Mode().Perm()
	}
	err := os.MkdirAll(filepath.Dir(file), 0o700)
	if err == nil {
		err = replaceIn(filepath.Dir(file), file, mode, data, true)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", file, bare(err))
	}
	return nil
}

// replaceIn writes a file beside its place and moves it there. One that must outlive
// a crash of this machine is on the disk before that; what is written anew each
// second need not be.
func replaceIn(dir, file string, mode fs.FileMode, data []byte, durable bool) error {
	tmp, err := os.CreateTemp(dir, ".runvigil-*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(data)
	if err == nil {
		err = tmp.Chmod(mode)
	}
	if err == nil && durable {
		err = tmp.Sync()
	}
	if shut := tmp.Close(); err == nil {
		err = shut
	}
	if err == nil {
		err = os.Rename(tmp.Name(), file)
	}
	if err != nil {
		if left := os.Remove(tmp.Name()); left != nil {
			return errors.Join(err, left)
		}
	}
	return err
}

// bare is an error of a file without the path that it names, which may be that
// of a temporary file.
func bare(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err
	}
	if link, ok := errors.AsType[*os.LinkError](err); ok {
		return link.Err
	}
	return err
}
