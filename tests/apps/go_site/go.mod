module site

go 1.19
