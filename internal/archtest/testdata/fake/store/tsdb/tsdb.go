// Package tsdb knows who asks.
package tsdb

import (
	"fmt"
	"log"
	"os"

	_ "reckon/query"
	_ "reckon/store/remote"
)

// Say does what only cmd may.
func Say() {
	fmt.Println("x")
	fmt.Fprintln(os.Stderr, "to a writer is fine")
	_ = os.Getenv("HOME")
	log.Fatal("x")
}
