package main

import (
	"log/slog"
	"strconv"

	"github.com/spf13/pflag"

	"reckon/internal/term"
	"reckon/server"
	"reckon/web/client"
)

// footprintFlags define the emissions and the cost of energy.
type footprintFlags struct{ grid, tariff string }

func (o *footprintFlags) register(f *pflag.FlagSet) {
	f.StringVar(&o.grid, "grid-intensity", "", "grams of CO2 for each kWh, such as 385, or a CSV file of time,value")
	f.StringVar(&o.tariff, "tariff", "", "price of a kWh, such as \"0.28 EUR\", or a CSV file of time,EUR_per_kWh")
}

func (o *footprintFlags) open(log *slog.Logger) (*server.Footprint, error) {
	f, err := server.OpenFootprint(o.grid, o.tariff, log)
	if err != nil {
		return nil, &usageError{err}
	}
	return f, nil
}

// gramsText formats a mass of CO2.
func gramsText(v *float64) string {
	if v == nil {
		return ""
	}
	switch g := *v; {
	case g >= 999.5e3:
		return "CO2 " + strconv.FormatFloat(g/1e6, 'g', 3, 64) + " t"
	case g >= 999.5:
		return "CO2 " + strconv.FormatFloat(g/1e3, 'g', 3, 64) + " kg"
	default:
		return "CO2 " + strconv.FormatFloat(g, 'g', 3, 64) + " g"
	}
}

// costText formats an amount of money, with significant digits only.
func costText(v *float64, currency string) string {
	if v == nil {
		return ""
	}
	if *v != 0 && *v < 0.0001 && *v > -0.0001 {
		return "cost below 0.0001 " + term.Safe(currency)
	}
	digits := 2
	if *v < 1 && *v > -1 {
		digits = 4
	}
	return "cost " + strconv.FormatFloat(*v, 'f', digits, 64) + " " + term.Safe(currency)
}

// energyText describes the energy of a workload.
func energyText(d client.WorkloadDetail) []string {
	w := d.Workload
	joules := term.Energy(w.EnergyJoules)
	if word := map[string]string{"modelled": "modelled", "both": "part of it modelled",
		"measured": "measured"}[d.EnergyMethod]; word != "" && w.EnergyJoules != nil {
		joules += " (" + word + ")"
	}
	return []string{joules, gramsText(w.CO2Grams), costText(w.Cost, w.Currency)}
}
