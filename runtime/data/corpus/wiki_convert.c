/* SPDX-License-Identifier: Apache-2.0 */
/* {{convert|120|km|mi}} becomes 120 kilometres (75 mi).
 *
 * The precision follows the template's documentation: that of the given number, or two significant
 * digits, whichever is more precise. */
#include "config.h"
#include "wiki_expand.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct unit {
    const char *code; /* as in the template, in lower case except where case matters */
    const char *symbol;
    const char *name, *names; /* singular and plural; NULL: only the symbol is used */
    char kind;                /* physical quantity: only equal kinds convert */
    double factor, offset;    /* value in the kind's base unit = value * factor + offset */
    const char *other;        /* the unit to convert to if none is given */
};

static const struct unit units[] = {
    {"km", "km", "kilometre", "kilometres", 'L', 1000, 0, "mi"},
    {"m", "m", "metre", "metres", 'L', 1, 0, "ft"},
    {"cm", "cm", "centimetre", "centimetres", 'L', .01, 0, "in"},
    {"mm", "mm", "millimetre", "millimetres", 'L', .001, 0, "in"},
    {"mi", "mi", "mile", "miles", 'L', 1609.344, 0, "km"},
    {"mile", "mi", "mile", "miles", 'L', 1609.344, 0, "km"},
    {"miles", "mi", "mile", "miles", 'L', 1609.344, 0, "km"},
    {"yd", "yd", "yard", "yards", 'L', .9144, 0, "m"},
    {"ft", "ft", "foot", "feet", 'L', .3048, 0, "m"},
    {"foot", "ft", "foot", "feet", 'L', .3048, 0, "m"},
    {"feet", "ft", "foot", "feet", 'L', .3048, 0, "m"},
    {"in", "in", "inch", "inches", 'L', .0254, 0, "mm"},
    {"inch", "in", "inch", "inches", 'L', .0254, 0, "mm"},
    {"nmi", "nmi", "nautical mile", "nautical miles", 'L', 1852, 0, "km"},
    {"ly", "ly", "light-year", "light-years", 'L', 9.4607304725808e15, 0, "pc"},
    {"pc", "pc", "parsec", "parsecs", 'L', 3.0856775814671916e16, 0, "ly"},
    {"au", "AU", "astronomical unit", "astronomical units", 'L', 1.495978707e11, 0, "km"},
    {"km2", "km2", "square kilometre", "square kilometres", 'A', 1e6, 0, "sqmi"},
    {"sqkm", "km2", "square kilometre", "square kilometres", 'A', 1e6, 0, "sqmi"},
    {"m2", "m2", "square metre", "square metres", 'A', 1, 0, "sqft"},
    {"ha", "ha", "hectare", "hectares", 'A', 1e4, 0, "acre"},
    {"sqmi", "sq mi", "square mile", "square miles", 'A', 2589988.110336, 0, "km2"},
    {"sqft", "sq ft", "square foot", "square feet", 'A', .09290304, 0, "m2"},
    {"sqyd", "sq yd", "square yard", "square yards", 'A', .83612736, 0, "m2"},
    {"acre", "acres", "acre", "acres", 'A', 4046.8564224, 0, "ha"},
    {"acres", "acres", "acre", "acres", 'A', 4046.8564224, 0, "ha"},
    {"m3", "m3", "cubic metre", "cubic metres", 'V', 1, 0, "cuft"},
    {"km3", "km3", "cubic kilometre", "cubic kilometres", 'V', 1e9, 0, "cumi"},
    {"cumi", "cu mi", "cubic mile", "cubic miles", 'V', 4168181825.440579584, 0, "km3"},
    {"cuft", "cu ft", "cubic foot", "cubic feet", 'V', .028316846592, 0, "m3"},
    {"l", "L", "litre", "litres", 'V', .001, 0, "usgal"},
    {"ml", "mL", "millilitre", "millilitres", 'V', 1e-6, 0, "usoz"},
    {"usgal", "US gal", "US gallon", "US gallons", 'V', .003785411784, 0, "l"},
    {"gal", "gal", "gallon", "gallons", 'V', .003785411784, 0, "l"},
    {"impgal", "imp gal", "imperial gallon", "imperial gallons", 'V', .00454609, 0, "l"},
    {"usoz", "US fl oz", "US fluid ounce", "US fluid ounces", 'V', 2.95735295625e-5, 0, "ml"},
    {"kg", "kg", "kilogram", "kilograms", 'M', 1, 0, "lb"},
    {"g", "g", "gram", "grams", 'M', .001, 0, "oz"},
    {"mg", "mg", "milligram", "milligrams", 'M', 1e-6, 0, "gr"},
    {"t", "t", "tonne", "tonnes", 'M', 1000, 0, "ST"},
    {"tonne", "t", "tonne", "tonnes", 'M', 1000, 0, "ST"},
    {"lt", "long tons", "long ton", "long tons", 'M', 1016.0469088, 0, "t"},
    {"st", "short tons", "short ton", "short tons", 'M', 907.18474, 0, "t"},
    {"lb", "lb", "pound", "pounds", 'M', .45359237, 0, "kg"},
    {"lbs", "lb", "pound", "pounds", 'M', .45359237, 0, "kg"},
    {"oz", "oz", "ounce", "ounces", 'M', .028349523125, 0, "g"},
    {"gr", "gr", "grain", "grains", 'M', 6.479891e-5, 0, "mg"},
    {"km/h", "km/h", "kilometres per hour", "kilometres per hour", 'S', 1 / 3.6, 0, "mph"},
    {"kph", "km/h", "kilometres per hour", "kilometres per hour", 'S', 1 / 3.6, 0, "mph"},
    {"m/s", "m/s", "metre per second", "metres per second", 'S', 1, 0, "ft/s"},
    {"ft/s", "ft/s", "foot per second", "feet per second", 'S', .3048, 0, "m/s"},
    {"km/s", "km/s", "kilometre per second", "kilometres per second", 'S', 1000, 0, "mi/s"},
    {"mi/s", "mi/s", "mile per second", "miles per second", 'S', 1609.344, 0, "km/s"},
    {"mph", "mph", "mile per hour", "miles per hour", 'S', .44704, 0, "km/h"},
    {"kn", "kn", "knot", "knots", 'S', 1852. / 3600, 0, "km/h"},
    {"knots", "kn", "knot", "knots", 'S', 1852. / 3600, 0, "km/h"},
    {"c",
     "\xc2\xb0"
     "C",
     "degree Celsius", "degrees Celsius", 'T', 1, 273.15, "f"},
    {"f",
     "\xc2\xb0"
     "F",
     "degree Fahrenheit", "degrees Fahrenheit", 'T', 5. / 9, 459.67 * 5 / 9, "c"},
    {"k", "K", "kelvin", "kelvins", 'T', 1, 0, "c"},
    {"w", "W", "watt", "watts", 'P', 1, 0, "hp"},
    {"kw", "kW", "kilowatt", "kilowatts", 'P', 1000, 0, "hp"},
    {"mw", "MW", "megawatt", "megawatts", 'P', 1e6, 0, "hp"},
    {"hp", "hp", "horsepower", "horsepower", 'P', 745.69987158227022, 0, "kw"},
    {"ps", "PS", "metric horsepower", "metric horsepower", 'P', 735.49875, 0, "kw"},
    {"pa", "Pa", "pascal", "pascals", 'R', 1, 0, "psi"},
    {"kpa", "kPa", "kilopascal", "kilopascals", 'R', 1000, 0, "psi"},
    {"mpa", "MPa", "megapascal", "megapascals", 'R', 1e6, 0, "psi"},
    {"bar", "bar", "bar", "bars", 'R', 1e5, 0, "kpa"},
    {"mbar", "mbar", "millibar", "millibars", 'R', 100, 0, "inhg"},
    {"hpa", "hPa", "hectopascal", "hectopascals", 'R', 100, 0, "inhg"},
    {"inhg", "inHg", "inch of mercury", "inches of mercury", 'R', 3386.388640341, 0, "hpa"},
    {"psi", "psi", "pound per square inch", "pounds per square inch", 'R', 6894.757293168, 0,
     "kpa"},
    {"atm", "atm", "standard atmosphere", "standard atmospheres", 'R', 101325, 0, "kpa"},
    {"j", "J", "joule", "joules", 'E', 1, 0, "cal"},
    {"kj", "kJ", "kilojoule", "kilojoules", 'E', 1000, 0, "kcal"},
    {"cal", "cal", "calorie", "calories", 'E', 4.184, 0, "j"},
    {"kcal", "kcal", "kilocalorie", "kilocalories", 'E', 4184, 0, "kj"},
    {"kwh", "kWh", "kilowatt hour", "kilowatt hours", 'E', 3.6e6, 0, "mj"},
    {"mj", "MJ", "megajoule", "megajoules", 'E', 1e6, 0, "kwh"},
    {"nm", "N\xc2\xb7m", "newton-metre", "newton-metres", 'Q', 1, 0, "lbft"},
    {"lbft",
     "lb\xe2\x8b\x85"
     "ft",
     "pound-foot", "pound-feet", 'Q', 1.3558179483314004, 0, "nm"},
    {"pd/sqkm", "/km2", "inhabitants per square kilometre", "inhabitants per square kilometre", 'D',
     1, 0, "pd/sqmi"},
    {"/km2", "/km2", "per square kilometre", "per square kilometre", 'D', 1, 0, "/sqmi"},
    {"/sqkm", "/km2", "per square kilometre", "per square kilometre", 'D', 1, 0, "/sqmi"},
    {"/sqmi", "/sq mi", "per square mile", "per square mile", 'D', 1 / 2.589988110336, 0, "/km2"},
    {"pd/sqmi", "/sq mi", "inhabitants per square mile", "inhabitants per square mile", 'D',
     1 / 2.589988110336, 0, "pd/sqkm"},
    {"g/cm3", "g/cm3", "gram per cubic centimetre", "grams per cubic centimetre", 'G', 1, 0,
     "lb/cuin"},
    {"lb/cuin", "lb/cu in", "pound per cubic inch", "pounds per cubic inch", 'G', 27.6799047102, 0,
     "g/cm3"},
};

static const struct unit *find_unit(struct wiki_span code)
{
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (wiki_is(code, units[i].code))
            return &units[i];
    return NULL;
}

/* The text between two numbers, or NULL if the argument is not a range word. */
static const char *range_word(struct wiki_span word)
{
    static const char *const words[][2] = {{"-", "\xe2\x80\x93"},
                                           {"\xe2\x80\x93", "\xe2\x80\x93"},
                                           {"to", " to "},
                                           {"and", " and "},
                                           {"or", " or "},
                                           {"by", " by "},
                                           {"x", " by "},
                                           {"\xc3\x97", " by "},
                                           {"to(-)", " to "},
                                           {"+/-", " \xc2\xb1 "},
                                           {"\xc2\xb1", " \xc2\xb1 "},
                                           {"*", " by "},
                                           {"and(-)", " and "}};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (wiki_is(word, words[i][0]))
            return words[i][1];
    return NULL;
}

struct quantity {
    double values[4];
    int decimals[4];
    struct wiki_span texts[4];
    const char *between[4];
    size_t count;
};

/* The decimals of the result, for a number with 'decimals' decimals. */
static int digits_for(double value, int decimals, double factor)
{
    int digits = decimals - (int)floor(log10(factor / .2) + 1e-9), least;

    if (value == 0)
        return digits > 0 ? digits : 0;
    least = 1 - (int)floor(log10(fabs(value)));
    return digits > least ? digits : least;
}

static void put_rounded(double value, int digits, struct wiki_buffer *out)
{
    char text[80];
    double scale = pow(10, digits < 0 ? -digits : 0);

    if (digits < 0)
        value = round(value / scale) * scale;
    snprintf(text, sizeof(text), "%.*f", digits > 0 ? (digits < 15 ? digits : 15) : 0, value);
    if (text[0] == '-')
        wiki_put_text(out, "\xe2\x88\x92");
    wiki_format_number(wiki_span(text + (text[0] == '-'), strlen(text) - (text[0] == '-')), out);
}

static void put_converted(const struct quantity *quantity, const struct unit *from,
                          const struct unit *to, int fixed, struct wiki_buffer *out)
{
    double factor = from->factor / to->factor;

    for (size_t i = 0; i < quantity->count; i++) {
        double value =
            (quantity->values[i] * from->factor + from->offset - to->offset) / to->factor;
        int decimals = quantity->decimals[i];

        if (i > 0)
            wiki_put_text(out, quantity->between[i]);
        /* Temperatures have no significant digits to preserve: use the same number of decimals. */
        put_rounded(value,
                    fixed >= -9         ? fixed
                    : from->kind == 'T' ? (decimals > 0 ? decimals : 0)
                                        : digits_for(value, decimals, factor),
                    out);
    }
}

static void put_unit(const struct unit *unit, int symbol, int several, int american,
                     struct wiki_buffer *out)
{
    const char *name = several ? unit->names : unit->name, *metre;

    if (symbol || !name) {
        /* 20 /km2 and 20 °C are written with a space, too. */
        wiki_put_text(out, unit->symbol[0] == '/' ? "" : " ");
        wiki_put_text(out, unit->symbol);
        return;
    }
    wiki_put_char(out, ' ');
    while (american && ((metre = strstr(name, "metre")) || (metre = strstr(name, "litre")))) {
        wiki_put(out, name, (size_t)(metre - name) + 3);
        wiki_put_text(out, "er");
        name = metre + 5;
    }
    wiki_put_text(out, name);
}

/* Parse the numbers. Returns the index of the unit, or 0 if there is no number. */
static size_t read_quantity(const struct wiki_call *call, struct quantity *quantity)
{
    size_t at = 1;

    quantity->count = 0;
    for (;;) {
        size_t i = quantity->count;
        const char *word;

        quantity->texts[i] = wiki_positional(call, at);
        if (!wiki_number(quantity->texts[i], &quantity->values[i], &quantity->decimals[i]))
            return 0;
        quantity->count++;
        word = range_word(wiki_positional(call, at + 1));
        if (!word || quantity->count == 4)
            return at + 1;
        quantity->between[quantity->count] = word;
        at += 2;
    }
}

static void put_given(const struct quantity *quantity, const struct unit *unit, int symbol,
                      int american, int adjective, struct wiki_buffer *out)
{
    double last = quantity->values[quantity->count - 1];

    for (size_t i = 0; i < quantity->count; i++) {
        if (i > 0)
            wiki_put_text(out, quantity->between[i]);
        wiki_format_number(quantity->texts[i], out);
    }
    if (adjective && !symbol && unit->name) {
        wiki_put_char(out, '-');
        wiki_put_text(out, unit->name);
        return;
    }
    put_unit(unit, symbol, quantity->count > 1 || fabs(last) != 1, american, out);
}

void wiki_convert(const struct wiki_call *call, int abbreviate, struct wiki_buffer *out)
{
    struct quantity quantity;
    size_t at = read_quantity(call, &quantity);
    struct wiki_span code = wiki_positional(call, at ? at : 2), target, abbr, sigfig;
    const struct unit *unit = find_unit(code), *other;
    int american = wiki_is(wiki_named(call, "sp"), "us"), symbol, decimals, fixed = -100;
    int adjective = wiki_is(wiki_named(call, "adj"), "on");
    double digits;

    if (at == 0)
        return;
    if (!unit) {
        wiki_format_number(quantity.texts[0], out);
        wiki_put_char(out, ' ');
        wiki_put(out, code.data, code.size);
        return;
    }
    target = wiki_positional(call, at + 1);
    abbr = wiki_named(call, "abbr");
    symbol = abbreviate || wiki_is(abbr, "on") || wiki_is(abbr, "in") ||
             (unit->kind == 'T' && !wiki_is(abbr, "off"));
    sigfig = wiki_positional(call, at + 2);
    /* The number after the units is the precision in digits; without a second unit it takes its
     * place. */
    if (target.size > 0 && !find_unit(target) && wiki_number(target, &digits, &decimals)) {
        sigfig = target;
        target.size = 0;
    }
    if (sigfig.size > 0 && wiki_number(sigfig, &digits, &decimals) && fabs(digits) < 10)
        fixed = (int)digits;
    put_given(&quantity, unit, symbol, american, adjective, out);
    other = target.size > 0 ? find_unit(target)
                            : find_unit(wiki_span(unit->other, strlen(unit->other)));
    if (!other || other->kind != unit->kind || other == unit ||
        wiki_is(wiki_named(call, "disp"), "preunit"))
        return;
    wiki_put_text(out, " (");
    put_converted(&quantity, unit, other, fixed, out);
    put_unit(other, !wiki_is(abbr, "off"), 1, american, out);
    wiki_put_char(out, ')');
}
