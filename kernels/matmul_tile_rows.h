/* matmul_tile_rows -- a tile for each number of rows, chosen at run time; included once by the file
 * of each ISA, or its body, after its tile(). Needs TARGET, ROWS, WIDE_ROWS. */

/** Each number of rows is a tile of its own. All ISAs have tiles of 6 rows; what is more than an
 * ISA's own is not compiled there. */
TARGET PL_INLINE void narrow(int m, const int nv, const bool raw, const bool keeps, const bool cut,
                             const pl_tile_call *t)
{
    switch (m) {
    case 1:
        tile(1, nv, raw, keeps, cut, t);
        break;
    case 2:
        tile(2, nv, raw, keeps, cut, t);
        break;
    case 3:
        tile(3, nv, raw, keeps, cut, t);
        break;
    case 4:
        tile(4, nv, raw, keeps, cut, t);
        break;
    case 5:
        tile(5, nv, raw, keeps, cut, t);
        break;
    case 6:
        tile(6, nv, raw, keeps, cut, t);
        break;
    case 7:
        if (ROWS > 7)
            tile(7, nv, raw, keeps, cut, t);
        break;
    case 8:
        if (ROWS > 8)
            tile(8, nv, raw, keeps, cut, t);
        break;
    case 9:
        if (ROWS > 9)
            tile(9, nv, raw, keeps, cut, t);
        break;
    case 10:
        if (ROWS > 10)
            tile(10, nv, raw, keeps, cut, t);
        break;
    case 11:
        if (ROWS > 11)
            tile(11, nv, raw, keeps, cut, t);
        break;
    case 12:
        if (ROWS > 12)
            tile(12, nv, raw, keeps, cut, t);
        break;
    case 13:
        if (ROWS > 13)
            tile(13, nv, raw, keeps, cut, t);
        break;
    default:
        if (ROWS == 14)
            tile(14, nv, raw, keeps, cut, t);
        break;
    }
}

/** The same for four vectors of raw b. */
TARGET static void four(int m, const pl_tile_call *t)
{
    switch (m) {
    case 1:
        tile(1, 4, true, false, false, t);
        break;
    case 2:
        tile(2, 4, true, false, false, t);
        break;
    case 3:
        if (WIDE_ROWS > 3)
            tile(3, 4, true, false, false, t);
        break;
    case 4:
        if (WIDE_ROWS > 4)
            tile(4, 4, true, false, false, t);
        break;
    case 5:
        if (WIDE_ROWS > 5)
            tile(5, 4, true, false, false, t);
        break;
    default:
        if (WIDE_ROWS == 6)
            tile(6, 4, true, false, false, t);
        break;
    }
}
