/** The addresses of callers, kept beside their requests: the Fetch API has no place for them. */
const ADDRESSES = new WeakMap<Request, string>()

/** Notes the address that a request came from. */
export function noteAddress(request: Request, address: string | undefined): void {
  if (address !== undefined) ADDRESSES.set(request, address)
}

/** The address that a request came from; null: unknown. */
export function addressOf(request: Request): string | null {
  return ADDRESSES.get(request) ?? null
}
