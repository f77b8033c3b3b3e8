// Package term formats figures for a terminal: units for people, aligned tables, bars and
// charts, within the width of the screen and with colour only if it is wanted.
//
// Unknown figures are printed as "-", never as 0; functions on figures take pointers for
// that reason, and NaN counts as unknown. Bytes are in powers of 1024 with IEC names (IEC
// 80000-13). Colour follows https://no-color.org: never when NO_COLOR is set, and only on
// a terminal. Text from other machines passes through [Safe]. All functions may be called
// from several goroutines; a [Table] may not.
package term

// Unknown is printed for a figure that was not measured.
const Unknown = "-"
