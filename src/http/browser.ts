import { denied } from './access.ts'

/**
 * Refuses what a page in a browser sends to a server without tokens: it needs no secret to act there, and the browser of anybody who can
 * reach the server carries its requests.
 *
 * @param isHost whether the server goes by that name; null: by any. A page whose own name was pointed here sends that name.
 * @throws Refusal 403
 */
export function refusePages(request: Request, isHost: ((host: string) => boolean) | null): void {
  const { headers, method } = request
  const { host, hostname } = new URL(request.url)
  if (isHost && !isHost(hostname.replace(/^\[|\]$/g, '')))
    throw denied(
      `The server without tokens does not go by the name ${hostname.slice(0, 100)}. Send the request to the address it listens on.`,
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
