#include "config.h"

#include "src/roofline/core_places.h"

#include "src/base/panic.h"
#include "src/roofline/line.h"
#include "src/roofline/measure.h"

#include <string.h>

static void note_line(pl_core_place *place, double line_s)
{
    PL_ASSERT(place->n_lines <= PL_N_PARTS);
    if (line_s > 0)
        place->line_s[place->n_lines++] = line_s;
}

bool pl_core_place_is(const pl_core_place *place, double line_s)
{
    return place->n_lines == 0 || !pl_lines_differ(line_s, place->line_s[0]);
}

pl_core_place *pl_core_places_most(pl_core_places *places)
{
    pl_core_place *most = &places->place[0];

    PL_ASSERT(places->n > 0);
    for (int i = 1; i < places->n; i++)
        if (places->place[i].n_parts > most->n_parts)
            most = &places->place[i];
    return most;
}

pl_core_place *pl_core_places_at(pl_core_places *places, const pl_machine *begun, double line_s)
{
    for (int i = 0; i < places->n; i++)
        if (pl_core_place_is(&places->place[i], line_s))
            return &places->place[i];
    if (places->n == PL_N_PLACES)
        return pl_core_places_most(places);
    pl_core_place *place = &places->place[places->n++];
    memset(place, 0, sizeof *place);
    memcpy(&place->machine, begun, sizeof place->machine); /* with its padding: sent as bytes */
    note_line(place, line_s);
    return place;
}

void pl_core_place_add(pl_core_place *place, const pl_machine *measured, double line_s)
{
    memcpy(&place->machine, measured, sizeof place->machine);
    note_line(place, line_s);
    place->n_parts++;
}

const pl_machine *pl_core_place_machine(pl_core_place *place)
{
    pl_machine *machine = &place->machine;

    if (place->n_lines > 0) {
        machine->line_s = pl_median(place->line_s, place->n_lines); /* sorts */
        machine->spread.line_s =
            (place->line_s[place->n_lines - 1] - place->line_s[0]) / machine->line_s;
    }
    return machine;
}
