import no_such_package

app = no_such_package.App()
