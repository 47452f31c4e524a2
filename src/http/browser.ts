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
  const { host, hostname } = new URL(request.url)
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

function hostOf(origin: string): string | null {
  return URL.canParse(origin) ? new URL(origin).host : null
}
