// Package all may list its siblings.
package all

import (
	_ "reckon/sensor/hwmon"
	_ "reckon/sensor/rapl"
)
