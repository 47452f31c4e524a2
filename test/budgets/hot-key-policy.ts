/** As many starts as the processes of a test share: the next unit is days away. */
export const HOT = { rate: 100, per: '365d', burst: 100 } as const
