package influx

import (
	"encoding/csv"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"reckon/store"
	"reckon/store/storetest"
)

// readerQuery is the query of readPredictionResults in GLACIATION's storage service (glaciation-data-storage-service c9d9c18,
// openapi_server/data_storage_service/utils.py, MIT, (c) 2024 HIRO-MicroDataCenters), with its names for bucket, metric and time.
const readerQuery = `from(bucket:"%s")                |> range(start: 2000-01-01T00:00:00Z, stop: %s)                 |> filter(fn:(r) => r._measurement == "forecasting")                |> filter(fn:(r) => r.metricId == "%s")                 |> filter(fn:(r) => r._time == %s)                 |> group(columns: ["metricId","_time"])                 |> sort(columns: ["forecasting_time"])`

// TestReader writes forecasts to a real InfluxDB 1.8 at /api/v2/write, twice, and reads them with the query of the published reader.
func TestReader(t *testing.T) {
	t.Setenv("INFLUXDB_HTTP_FLUX_ENABLED", "true")
	addr := storetest.Influx18(t)
	storetest.InfluxDatabase(t, addr, "energy_consumption")
	w, err := New("http://"+addr+"/api/v2/write?org=glaciation&bucket=energy_consumption/autogen", 840)
	if err != nil {
		t.Fatal(err)
	}
	f := forecastOf(100, 104.5, 110.25)
	for range 2 { // a repeated write creates no duplicates
		if err := w.Write(t.Context(), []store.Forecast{f}); err != nil {
			t.Fatal(err)
		}
	}
	at := f.Made.Add(time.Hour).Format(time.RFC3339)
	query := fmt.Sprintf(readerQuery, "energy_consumption/autogen", f.Made.AddDate(0, 0, 7).Format(time.RFC3339), "node/lab/n 1/watts", at)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+"/api/v2/query?org=glaciation", strings.NewReader(query))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/vnd.flux")
	req.Header.Set("Accept", "application/csv")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(res.Body)
		t.Fatalf("%s: %s", res.Status, body)
	}
	in := csv.NewReader(res.Body)
	in.FieldsPerRecord = -1
	rows, err := in.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	var header []string
	for _, row := range rows {
		if strings.HasPrefix(row[0], "#") {
			continue
		}
		if slices.Contains(row, "_field") {
			header = row
			continue
		}
		if len(row) < len(header) || header == nil {
			t.Fatalf("%q", rows)
		}
		of := func(name string) string {
			if at := slices.Index(header, name); at >= 0 {
				return row[at]
			}
			return "no " + name
		}
		got = append(got, strings.Join([]string{of("_field"), of("_value"), of("_time"), of("metricId"), of("aggregation_interval"), of("forecasting_model"), of("forecasting_time"), of("input_size")}, " "))
	}
	slices.Sort(got)
	rest := " " + at + " node/lab/n 1/watts 3600 ets+theta 2026-03-20 840"
	if want := []string{"forecasting_lower 52.25" + rest, "forecasting_upper 209" + rest, "forecasting_value 104.5" + rest}; !slices.Equal(got, want) {
		t.Errorf("the reader sees\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
