/** What was set aside beside jobs, which count as rejected. */
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
  /** Of a bucket: which one begins anew, with nothing left. */
  readonly bucket?: { readonly limit: string; readonly key: string }
}
