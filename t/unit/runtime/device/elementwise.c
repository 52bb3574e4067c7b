/* What works on single elements or copies them. */
#include "device_test.h"
#include "tap.h"
#include "rng.h"

#include <math.h>
#include <stdlib.h>

void element_cases(void)
{
    struct operation op = {.kind = OPERATION_ADD, .add = {1000, type}};
    struct tensor x = tensor(1000, 1), y = tensor(1000, 1), z = tensor_as(TYPE_FP32, 1000, 1, 0);
    struct device_plan *p = plan(&op);
    double e[1000];
    int32_t index[10] = {3, 99, -1, 0, 3, 42, 7, -1, 12, 98},
            *index_d = upload(index, sizeof(index));
    int32_t places[10] = {9, -1, 4, 3, 0, -1, 1, 8, 7, 5},
            *places_d = upload(places, sizeof(places));

    run_add(p, stream, &(struct add_operands){x.d, y.d});
    for (int i = 0; i < 1000; i++)
        e[i] = x.v[i] + y.v[i];
    agree(&y, e, "add");
    plan_destroy(p);

    op = (struct operation){.kind = OPERATION_ACTIVATION,
                            .activation = {1000, type, ACTIVATION_GELU}};
    p = plan(&op);
    run_activation(p, stream, &(struct activation_operands){x.d, y.d});
    for (int i = 0; i < 1000; i++)
        e[i] = gelu_reference(x.v[i]);
    agree(&y, e, "activation");
    plan_destroy(p);

    op = (struct operation){.kind = OPERATION_FILL, .fill = {110, type, 1.5}};
    p = plan(&op);
    run_fill(p, stream, &(struct fill_operands){z.d});
    plan_destroy(p);
    op = (struct operation){.kind = OPERATION_GATHER_ROWS, .gather_rows = {10, 9, type, 10, 11, 0}};
    p = plan(&op);
    run_gather_rows(p, stream, &(struct gather_rows_operands){x.d, index_d, z.d});
    for (int i = 0; i < 110; i++)
        if (i % 11 < 9)
            e[i] = index[i / 11] < 0 ? 0 : x.v[index[i / 11] * 10 + i % 11];
        else
            e[i] = 1.5; /* between the rows nothing is written */
    z.n = 110, z.as = type;
    agree(&z, e, "gather rows");
    plan_destroy(p);

    op = (struct operation){.kind = OPERATION_GATHER_ROWS, .gather_rows = {10, 9, type, 10, 11, 1}};
    p = plan(&op);
    run_gather_rows(p, stream, &(struct gather_rows_operands){x.d, places_d, z.d});
    for (int r = 0; r < 10; r++)
        for (int i = 0; i < 9 && places[r] >= 0; i++)
            e[places[r] * 11 + i] = x.v[r * 10 + i];
    agree(&z, e, "scatter rows");
    z.n = 1000, z.as = TYPE_FP32;
    plan_destroy(p);

    op = (struct operation){.kind = OPERATION_NORMAL, .normal = {7, 11, 3, 5, 40, 0.5}};
    p = plan(&op);
    run_normal(p, stream, &(struct normal_operands){z.d, 123, 77});
    for (int i = 0; i < 77; i++) {
        uint64_t n = (uint64_t)((3 + i / 11) * 40 + 5 + i % 11);
        double pair[2];

        rng_normal(123, 77, 0, n / 2, pair);
        e[i] = 0.5 * pair[n % 2];
    }
    z.n = 77;
    agree(&z, e, "normal numbers by global index");
    plan_destroy(p);

    op = (struct operation){.kind = OPERATION_FILL, .fill = {1000, type, 1.5}};
    p = plan(&op);
    run_fill(p, stream, &(struct fill_operands){x.d});
    for (int i = 0; i < 1000; i++)
        e[i] = 1.5;
    agree(&x, e, "fill");
    plan_destroy(p);

    op = (struct operation){.kind = OPERATION_CONVERT, .convert = {1000, type, TYPE_FP32}};
    p = plan(&op);
    run_convert(p, stream, &(struct convert_operands){x.d, z.d});
    z.n = 1000;
    agree(&z, e, "convert");
    plan_destroy(p);
    device_release(device, index_d), device_release(device, places_d);
    tensor_free(&x), tensor_free(&y), tensor_free(&z);
}
