// Package task may import what is below it.
package task

import _ "reckon/sensor/task/ebpf"
