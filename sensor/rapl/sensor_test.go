package rapl

import (
	"testing"

	"reckon/sensor"
	"reckon/sensor/sensortest"
)

func TestSensor(t *testing.T) {
	root := tree(t, xeon)
	sensortest.Run(t, func(t *testing.T) sensor.Sensor {
		s, err := New(root)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}, sensortest.Options{Empty: func(root string) (sensor.Sensor, error) {
		s, err := New(root)
		if err != nil {
			return nil, err
		}
		return s, nil
	}})
}
