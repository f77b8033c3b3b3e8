// Package metric breaks the rule of the vocabulary by importing a sensor.
package metric

import _ "reckon/sensor/hwmon"
