/** An unreadable record, other than a job, that the store set aside. Jobs count as rejected instead. */
export interface SetAside {
  readonly kind:
    | 'bucket'
    | 'limit'
    | 'override'
    | 'arrival'
    | 'queue'
    | 'bounds'
    | 'schedule'
    | 'lane'
    | 'worker'
    | 'ageing'
  /** Its name, for people. */
  readonly name: string
  /** For a bucket: its limit and key. It starts again with nothing left. */
  readonly bucket?: { readonly limit: string; readonly key: string }
}
