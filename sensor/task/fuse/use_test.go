package fuse

import (
	"fmt"
	"os"
)

// use is the program that the tests start: known reads, writes and lookups of what is not there.
func use(dir string) error {
	f, err := os.OpenFile(dir+"/f", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	buf := make([]byte, readSize)
	for i := range reads {
		if _, err := f.ReadAt(buf, int64(i)*readSize); err != nil {
			return err
		}
	}
	for i := range writes {
		if _, err := f.WriteAt(buf[:writeSize], int64(i)*writeSize); err != nil {
			return err
		}
	}
	for i := range lookups {
		if _, err := os.Stat(fmt.Sprintf("%s/none%d", dir, i)); !os.IsNotExist(err) {
			return fmt.Errorf("a file that is not there: %v", err)
		}
	}
	return f.Close()
}

const reads, readSize, writes, writeSize, lookups = 100, 4096, 50, 1000, 1000
