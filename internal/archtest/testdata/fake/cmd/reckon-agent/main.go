// Command reckon-agent links a store through another package.
package main

import (
	"fmt"

	_ "reckon/agent"
)

func main() { fmt.Println("cmd may print") }
