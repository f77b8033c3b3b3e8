package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// requireSubcommand returns an error for the arguments of a command that has only subcommands. Without it, an unknown
// subcommand would be ignored.
func requireSubcommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	text := fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath())
	if args[0] == "seff" && !cmd.HasParent() {
		return fmt.Errorf("%s; `reckon job %s --seff` prints what seff does", text, strings.Join(append(args[1:], "ID")[:1], ""))
	}
	if cmd.SuggestionsMinimumDistance <= 0 {
		cmd.SuggestionsMinimumDistance = 2
	}
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return fmt.Errorf("%s; did you mean %s?", text, strings.Join(near, " or "))
	}
	if cmd.HasParent() { // the root has too many to list
		var names []string
		for _, sub := range cmd.Commands() {
			names = append(names, sub.Name())
		}
		text += "; available: " + strings.Join(names, ", ")
	}
	return errors.New(text)
}

// describeArgsError names the arguments of a command, because the library only counts them.
func describeArgsError(cmd *cobra.Command, args []string, err error) error {
	_, takes, _ := strings.Cut(cmd.Use, " ")
	if takes == "" || !strings.Contains(err.Error(), "arg(s)") {
		return err
	}
	text := "give " + takes
	if _, most, ok := strings.Cut(err.Error(), "at most "); ok {
		text = "give at most " + strings.Fields(most)[0] + ": " + takes
	}
	if len(args) > 0 {
		text += "; these were given: " + strings.Join(args, " ")
	}
	return errors.New(text)
}

// slurmFlag returns the equivalent of an option of Slurm's commands; empty for other words.
func slurmFlag(name string) string {
	return map[string]string{
		"starttime": "give -S", "endtime": "give -E", "jobs": "give -j", "job": "give -j", "format": "give -o",
		"long": "give -o with columns",
		"l":    "give -o with columns", "q": "give -o id,qos for the quality of service",
		"qos": "give -o id,qos for the quality of service",
		"a":   "leave it out: all that you may see are listed", "allusers": "leave it out: all that you may see are listed",
		"X": "leave it out: a job is one line", "allocations": "leave it out: a job is one line",
		"n": "give --format csv for programs", "noheader": "give --format csv for programs", "P": "give --format csv",
		"parsable2": "give --format csv", "parsable": "give --format csv", "r": "give -p", "L": "give --site", "M": "give --site",
		"clusters": "give --site", "uid": "give -u", "nodelist": "give -N",
	}[name]
}

// describeFlagError adds to the error of a flag which values it accepts, if the library only reports a parse error. For a Slurm
// flag in a list command, it adds the flag to use instead.
func describeFlagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && cmd.Flags().Lookup("columns") != nil && slurmFlag(unknown.GetSpecifiedName()) != "" {
		return fmt.Errorf("%w: %s", err, slurmFlag(unknown.GetSpecifiedName()))
	}
	var none *pflag.ValueRequiredError
	if errors.As(err, &none) {
		f := none.GetFlag()
		return fmt.Errorf("--%s needs a value: %s", f.Name, f.Usage)
	}
	var bad *pflag.InvalidValueError
	if errors.As(err, &bad) && bad.GetFlag().Name == "format" && cmd.Flags().Lookup("columns") != nil {
		return fmt.Errorf("%w; columns are chosen with -o", err)
	}
	var number *strconv.NumError
	if !errors.As(err, &bad) || !errors.As(err, &number) {
		return err
	}
	f, want := bad.GetFlag(), "give a number"
	switch kind := f.Value.Type(); {
	case errors.Is(number, strconv.ErrRange):
		want = "the number is too large"
	case kind == "bool":
		want = "give true or false"
	case strings.Contains(kind, "int"):
		want = "give a whole number"
	}
	return fmt.Errorf("--%s %q: %s", f.Name, bad.GetValue(), want)
}

// guardHyphenID inserts a double hyphen before the id of `token revoke` if the id starts with a hyphen, so that it is not
// parsed as a flag. Some ids from before 2026-11-22 start with a hyphen.
func guardHyphenID(args []string) []string {
	if len(args) == 0 || !slices.Contains(args, "revoke") {
		return args
	}
	id := regexp.MustCompile(`^-[A-Za-z0-9_-]{7}$`) // 6 bytes in base64
	for i := 0; i+2 < len(args); i++ {
		if args[i] != "token" || args[i+1] != "revoke" || slices.Contains(args, "--") {
			continue
		}
		for j := i + 2; j < len(args); j++ {
			if id.MatchString(args[j]) && args[j] != "--server" {
				return append(slices.Delete(slices.Clone(args), j, j+1), "--", args[j])
			}
		}
	}
	return args
}
