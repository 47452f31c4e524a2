import { denied } from './access.ts'

/**
 * Refuses requests that a web page sends to a server without tokens. A page needs no secret to act there, and the
 * browser of any user who can reach the server carries its requests.
 *
 * @param isHost returns whether a host name is the server's; null: any is. A page whose own name was pointed at the
 * server sends that name.
 * @throws {Refusal} 403
 */
export function refusePages(request: Request, isHost: ((host: string) => boolean) | null): void {
  const { headers, method } = request
  const { host, hostname } = hostIn(request.url)
  if (isHost && !isHost(hostname.replace(/^\[|\]$/g, '')))
    throw denied(
      `The host name ${hostname.slice(0, 100)} is not this server's, which has no tokens. Send the request to the address it listens on.`,
    )
  const origin = headers.get('origin')
  if (origin !== null && hostOf(origin) !== host)
    throw denied(
      'The request comes from a page of another origin, and the server has no tokens. Give it tokens to serve pages.',
    )
  const site = headers.get('sec-fetch-site')
  if (method !== 'GET' && method !== 'HEAD' && (site === 'cross-site' || site === 'same-site'))
    throw denied(
      'The request comes from a page of another site, and the server has no tokens. Give it tokens to serve pages.',
    )
}

/**
 * Refuses a change that a page of another site may have sent with the rights of its reader. Such a page can neither set
 * a header of its own nor send a token that it does not know.
 * @throws {Refusal} 403
 */
export function refuseForged({ headers, method }: Request): void {
  if (method === 'GET' || method === 'HEAD') return
  const site = headers.get('sec-fetch-site')
  if (site === 'cross-site' || site === 'same-site') throw denied('The request comes from a page of another site.')
  if (!headers.has('x-sluice-request') && !/^bearer /i.test(headers.get('authorization') ?? ''))
    throw denied('The change has no proof of its origin. Send a bearer token, or the header X-Sluice-Request: 1.')
}

/** The host of the last request: most requests of a server name the same. */
let last = { origin: '', host: '', hostname: '' }

function hostIn(url: string): { readonly host: string; readonly hostname: string } {
  const origin = url.slice(0, url.indexOf('/', url.indexOf('://') + 3))
  if (origin !== last.origin) {
    const { host, hostname } = new URL(url)
    last = { origin, host, hostname }
  }
  return last
}

function hostOf(origin: string): string | null {
  return URL.canParse(origin) ? new URL(origin).host : null
}
