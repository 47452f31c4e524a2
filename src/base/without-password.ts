/** A text without the passwords of the addresses in it: `postgres://user:***@host`, `password=***`. For what is shown or logged. */
export function withoutPassword(text: string): string {
  return text
    .replaceAll(/([a-z][a-z0-9+.-]*:\/\/[^:/?#\s"'@]*:)[^\s"']*@/gi, '$1***@')
    .replaceAll(/\b(password\s*=\s*)('[^']*'|[^&\s"']+)/gi, '$1***')
}
